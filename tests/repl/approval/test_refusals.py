"""What a person reads about a call that did not run, or failed."""

import pytest

from agent_cli.core.declining import (
    CHANGE_PLAN,
    CLOSED,
    STOPPED,
    UNDECIDED,
    UNWANTED,
    unwanted_because,
)
from agent_cli.repl.approval.refusals import failure


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (UNWANTED, ("not run", "you said no")),
        (STOPPED, ("not run", "you stopped here")),
        (CLOSED, ("not answered", "you closed the question")),
        (UNDECIDED, ("not approved", "plan mode stays on")),
        (f"{CHANGE_PLAN}tests first", ("not approved", "you said: tests first")),
        (unwanted_because("use\nmake"), ("not run", "you said: use make")),
        ("Invalid input. Correct it and call again.", ("failed after 2.0 s", "Invalid input.")),
        (
            "Stopped with the whole run. Its effect may be partial.",
            ("stopped after 2.0 s", "may be half done"),
        ),
        ("there is\nno a.py", ("failed after 2.0 s", "there is no a.py")),
    ],
)
def test_the_sentence_for_the_model_is_not_what_the_person_reads_of_their_own_no(
    answer: str, shown: tuple[str, str]
) -> None:
    """The screen says what was decided; orders to the model are not for the one who gave them."""
    assert failure(answer, 2.0) == shown


def test_a_call_that_took_no_time_is_not_said_to_have_failed_after_some() -> None:
    """One that is unknown or has a wrong input never ran at all."""
    assert failure("no such tool", 0.04) == ("failed", "no such tool")
