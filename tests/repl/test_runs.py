"""Runs with calls to approve: decided together, then run once, in call order."""

from pathlib import Path

from tests.repl.conversation import converse


def test_batch_of_calls_runs_after_all_are_decided_in_one_list() -> None:
    """S2-33, S2-34: nothing runs before the last decision; the model reads all results at once."""
    batch = "bash touch one ;; touch two ;; test ! -e two && touch three"

    out, beside = converse(batch, answers=("2", "use git", "y"))

    assert [Path(name).exists() for name in ("one", "two", "three")] == [True, False, True]
    titles = [line.split(" · ")[0] for line in beside]
    assert "3 calls" in titles
    assert "2 calls" in titles
    assert [line for line in beside if "you said" in line] == [
        "  not run: Run touch two: you said: use git"
    ]
    assert out == "The tool said: exit code 0\n"


def test_declined_call_is_never_said_to_have_started() -> None:
    """A listener who hears that it started believes that it ran."""
    _, beside = converse("bash touch one ;; touch two", answers=("2", "n", "y"))

    assert [line for line in beside if line.startswith("* ")] == ["* Run touch one"]
    assert "  not run: Run touch two: you said no" in beside


def test_always_for_one_call_lets_matching_calls_of_the_batch_run() -> None:
    """S4-26: the stored rule answers for the others of the batch."""
    _, beside = converse("bash touch one ;; touch two", answers=("1", "y session"))

    assert [Path(name).exists() for name in ("one", "two")] == [True, True]
    assert len([line for line in beside if line.startswith("Run touch")]) == 1
