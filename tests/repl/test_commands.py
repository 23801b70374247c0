"""Slash commands, in the program a pipe drives."""

import pytest

from agent_cli.repl.commands import COMMANDS, describe_usage
from agent_cli.timeline import Usage
from tests.repl.test_plain import converse

GREETING_ROWS = 3


def said(lines: str) -> list[str]:
    """Return what the commands in *lines* put on stderr."""
    code, _, err = converse(lines)
    assert code == 0
    return err.splitlines()[GREETING_ROWS:]


def test_help_lists_every_command() -> None:
    """The table is the list, so nothing can be missing."""
    shown = said("/help\n")

    names = ["help", "clear", "model", "tools", "mcp", "usage", "compact"]
    names += ["output", "pause", "exit"]
    assert {line.split()[0] for line in shown if line.startswith("/")} == {
        f"/{name}" for name in names
    }
    assert len(COMMANDS) == 10


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("/mcp", "docs: connected, 3 tools"),
        ("/compact the plan", "compacted 4 messages: about 9,000 → 1,000 tokens"),
        ("/toosl", "there is no command /toosl; did you mean /tools?"),
        ("/etc/passwd", "there is no command /etc/passwd; /help lists them"),
        ("/exit now", "/exit takes nothing behind it"),
        ("/model nope", "there is no model nope; there are: normal, high"),
        ("/model high", "model: model-2"),
    ],
)
def test_a_command_answers_in_one_line(line: str, shown: str) -> None:
    """Whatever begins with a slash is never sent to the model."""
    assert said(f"{line}\n") == [shown]


def test_model_without_a_name_shows_the_choice_and_with_one_changes_it() -> None:
    """The next call asks the new one."""
    _, out, err = converse("/model\n/model high\nhello\n")

    assert err.splitlines()[GREETING_ROWS:] == [
        "model: model-1",
        "  normal = model-1",
        "  high = model-2",
        "model: model-2",
    ]
    assert out == "You said 'hello' to model-2.\n"


def test_usage_counts_the_conversation_and_clear_forgets_it() -> None:
    """Two replies of 10 + 2 tokens at 50 microdollars each."""
    assert said("one\ntwo\n/usage\n/clear\n/usage\n") == [
        "input 20 · cache read 0 · cache write 0 · output 4 tokens · $0.0001",
        "a new conversation begins",
        "input 0 · cache read 0 · cache write 0 · output 0 tokens · $0.0000",
    ]


def test_an_unknown_price_is_not_zero() -> None:
    """A cost nobody knows must not look like none."""
    usage = Usage(1_000, 2, 3, 4, 5, cost_microdollars=None)

    assert describe_usage(usage) == (
        "input 1,000 · cache read 3 · cache write 9 · output 2 tokens · cost unknown"
    )


def test_exit_leaves_before_the_next_line() -> None:
    """S1c-9."""
    _, out, _ = converse("/exit\nhello\n")

    assert out == ""
