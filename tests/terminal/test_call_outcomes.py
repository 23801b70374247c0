"""The outcome of a call in a few words."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from agent_cli.contracts.timeline import Json
from agent_cli.core.attempts import STOPPED_TRYING
from agent_cli.core.call_decisions import (
    CHANGE_PLAN,
    CLOSED,
    STOPPED,
    UNDECIDED,
    UNWANTED,
    unwanted_because,
)
from agent_cli.terminal.narration import describe_failure, has_failed, outcome_of
from tests.tables import each_row

ROOT = Path(__file__).parents[2]


@each_row(
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
        (
            f"{STOPPED_TRYING} It had run for 2.0 s.",
            ("stopped after 2.0 s", "it changed nothing"),
        ),
        (
            "Skipped: the user sent a message first. Read it before going on.",
            ("skipped", "you sent a message first"),
        ),
        (
            "Not run: the run was stopped before its turn.",
            ("not run", "the run was stopped before its turn"),
        ),
        (
            "Not run: the reply ended with max_tokens before this call was complete. Call again"
            " with less in it.",
            ("not run", "the reply ended with max_tokens before this call was complete"),
        ),
        (
            "The rule bash(rm *) denies this call. Do not try it in another form: continue without"
            " it, or ask the user to change the rule.",
            ("failed after 2.0 s", "The rule bash(rm *) denies this call."),
        ),
        (
            "The sandbox could not be made: full. Is the disk full? Tell the user.",
            ("failed after 2.0 s", "The sandbox could not be made: full. Is the disk full?"),
        ),
        ("Read a.py. It is there.", ("failed after 2.0 s", "Read a.py. It is there.")),
        ("there is\nno a.py", ("failed after 2.0 s", "there is no a.py")),
    ],
)
def test_failure_of_a_call_is_reworded_for_the_user(answer: str, shown: tuple[str, str]) -> None:
    """The screen shows the decision; instructions to the model are not for the user."""
    assert describe_failure(answer, 2.0) == shown


def test_advice_to_the_model_in_tool_errors_is_not_shown() -> None:
    """Only a second sentence that states a fact is shown."""
    facts = ("The ", "It ", "Is ", "They ", "Plan mode stays on", "This ")
    shown = [describe_failure(said, 0)[1] for said in _said_to_the_model()]
    behind = [each for words in shown for each in re.split(r"(?<=[.!?])\s+(?=[A-Z])", words)[1:]]

    assert len(shown) > 60
    assert [each for each in behind if not each.startswith(facts)] == []


def _said_to_the_model() -> Iterator[str]:
    """Yield the texts of all errors that tools raise, with a word for each placeholder."""
    sources = (path for folder in ("agent_cli", "tools") for path in (ROOT / folder).rglob("*.py"))
    for text in (path.read_text(encoding="utf-8") for path in sources):
        for node in ast.walk(ast.parse(text)) if "ToolError(" in text else ():
            match node:
                case ast.Call(func=ast.Name(id="ToolError"), args=[said, *_]):
                    yield _text(said)
                case _:
                    pass


def _text(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(map(_text, parts))
        case _:
            return "it"


def test_failure_of_a_call_that_never_ran_shows_no_duration() -> None:
    """A call of an unknown tool, or with invalid input, never ran at all."""
    assert describe_failure("no such tool", 0.04) == ("failed", "no such tool")


@each_row(
    ("details", "outcome"),
    [
        ({"kind": "diff", "diff": "", "added": 2, "removed": 1}, "+2 −1"),
        ({"kind": "command", "exit_code": 3}, "exit 3"),
        ({"kind": "command", "exit_code": 0}, ""),
        ({"kind": "command", "exit_code": None, "job": 7}, "job 7, in the background"),
        ({"job": 7, "status": "Started as job 7."}, "job 7, in the background"),
        ({"kind": "read", "lines": 3, "total": 9}, "3 of 9 lines"),
        ({"kind": "search", "matches": 1, "total": 1}, "1 match"),
        ({"kind": "search", "matches": 100, "total": 4000}, "100 of 4,000 matches"),
        (
            {"kind": "search", "matches": 0, "total": 0, "cut": True},
            "0 matches · stopped early",
        ),
        ({"kind": "directory", "entries": 0}, "0 entries"),
        ({"kind": "diff", "added": "many"}, ""),
        (["kind"], ""),
    ],
)
def test_outcome_of_a_call_is_summarized_in_a_few_words(details: Json, outcome: str) -> None:
    """Details of unknown shape are ignored; a failed command differs from a successful one."""
    assert outcome_of(details) == outcome
    assert has_failed(details) == (outcome == "exit 3")
