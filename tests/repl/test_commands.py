"""Slash commands, in the program a pipe drives."""

import re

import pytest

from agent_cli.repl.commands import COMMANDS, bars, describe_usage
from agent_cli.timeline import Usage
from tests.repl.test_plain import converse

GREETING_ROWS = 3
LEVELS = "off, minimal, low, medium, high, xhigh"


def said(lines: str) -> list[str]:
    """Return what the commands in *lines* put on stderr."""
    code, _, err = converse(lines)
    assert code == 0
    return err.splitlines()[GREETING_ROWS:]


def test_help_lists_every_command() -> None:
    """The table is the list, so nothing can be missing."""
    shown = said("/help\n")

    names = ["help", "clear", "resume", "fork", "rewind", "compact", "uncompact", "export"]
    names += ["model", "effort", "mode", "permissions", "theme", "tools", "mcp", "usage"]
    names += ["context", "copy", "output", "pause", "exit"]
    assert {line.split()[0] for line in shown if line.startswith("/")} == {
        f"/{name}" for name in names
    }
    assert len(COMMANDS) == len(names)


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
        ("/effort high", "effort: high"),
        ("/effort huge", f"there is no effort huge; there are: default, {LEVELS}"),
        ("/mode plan", "mode: plan, only looks around"),
        ("/mode god", "there is no mode god; there are: ask, auto-edit, plan, yolo"),
        ("/fork", "session s-2 goes on as a copy; s-1 stays as it is"),
        ("/export html", "written without secrets: s-1.html"),
        ("/export pdf", "/export writes md, html or json, not pdf"),
        ("/uncompact", "nothing is left out"),
        ("/rewind", "there is no prompt to go back to"),
        ("/resume zz", "there is no session zz"),
        ("/resume 3", "3 is not one of the numbers from 1 to 2"),
        ("/copy", "/copy needs a screen; on a pipe stdout holds the answers"),
        ("/theme light", "/theme needs a screen"),
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


def test_resume_lists_the_other_sessions_and_takes_a_number_or_an_id() -> None:
    """S2-53: on a pipe nobody is asked; the list shows what `/resume NUMBER` takes."""
    shown = said("/resume\n/resume 1\n")

    dates = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d")
    assert [dates.sub("DATE", line) for line in shown] == [
        "  1  aa1  DATE  An old one",
        "  2  bb2  DATE  Touch  [waits for a decision]",
        "session aa1 goes on",
        "1 prompt so far; the last one:",
        "you> An old one",
        "An **old** answer.",
    ]
    assert said("/resume aa\n")[0] == "session aa1 goes on"


def test_rewind_counts_from_the_last_prompt() -> None:
    """S2-53: what came after it is not part of the conversation any more."""
    shown = said("one\ntwo\nthree\n/rewind\n/rewind 2\n/rewind\n")

    assert shown == [
        "  1  three",
        "  2  two",
        "  3  one",
        "back to before: two (files stay as they are)",
        "  1  one",
    ]


def test_the_mode_and_the_rules_in_force_are_shown() -> None:
    """S4-26: a rule with where it stands."""
    assert said("/permissions\n/mode\n") == [
        "mode: ask, asks before every change",
        "  deny read(.env)  (appsettings.toml:3)",
        "mode: ask, asks before every change",
        "  ask: asks before every change",
        "  auto-edit: edits files of the workspace without asking",
        "  plan: only looks around",
        "  yolo: asks only what must be asked",
    ]


def test_the_window_is_shown_by_what_fills_it() -> None:
    """Each part has its share of the whole window; nothing is divided by zero."""
    shown = bars({"tools": 2_500, "messages": 0}, window=10_000)

    assert shown == [
        "about 2,500 tokens in the next request (4 characters a token)",
        f"tools     {'█' * 8}{'░' * 22}      2,500   25%",
        f"messages  {'░' * 30}          0    0%",
        f"free      {'█' * 23}{'░' * 7}      7,500   75%",
    ]
    assert len(bars({"tools": 0}, window=0)) == 2
    assert said("/context\n")[0] == (
        "about 8,000 tokens in the next request (4 characters a token)"
    )
