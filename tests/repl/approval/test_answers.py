"""The message about a call that did not run, or failed."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from agent_cli.core.attempts import STOPPED_TRYING
from agent_cli.core.declining import (
    CHANGE_PLAN,
    CLOSED,
    STOPPED,
    UNDECIDED,
    UNWANTED,
    unwanted_because,
)
from agent_cli.repl.approval.answers import answers_to, failure, rule_in_words
from tests.tables import each_row

ROOT = Path(__file__).parents[3]


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
    assert failure(answer, 2.0) == shown


def test_advice_to_the_model_in_tool_errors_is_not_shown() -> None:
    """Only a second sentence that states a fact is shown."""
    facts = ("The ", "It ", "Is ", "They ", "Plan mode stays on", "This ")
    shown = [failure(said, 0)[1] for said in _said_to_the_model()]
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
    assert failure("no such tool", 0.04) == ("failed", "no such tool")


def test_answer_that_stores_a_rule_for_changes_names_the_whole_workspace() -> None:
    """S4-26: the rule for `src/a.py` covers `b.py` too, so "this folder" said too little."""
    assert rule_in_words("edit(./**)") == "all edits in the workspace"
    assert rule_in_words("write(./**)") == "all files written in the workspace"


@each_row(
    ("rules", "words"),
    [
        (["bash(touch *)"], "commands that begin with `touch`"),
        (
            ["bash(touch *)", "edit(./**)", "bash(ls -la *)", "bash(mv *)"],
            "commands that begin with `touch`, `ls -la` or `mv` and all edits in the workspace",
        ),
        (
            ["mcp__my-db__read", "mcp__my-db__list", "bash(ls)"],
            "all calls of mcp__my-db__read, all calls of mcp__my-db__list and all that bash(ls)"
            " covers",
        ),
    ],
)
def test_answer_that_stores_several_rules_reads_as_a_sentence(rules: list[str], words: str) -> None:
    """It read "all that mcp__db__read covers, commands that begin with …" in a row."""
    offered = answers_to(
        [1],
        rules=[rules],
        project_file=None,
        edited="",
        is_folded=False,
        can_explain=False,
        of=0,
    )

    assert f"Yes, and {words} this session" in [choice.label for choice in offered]
