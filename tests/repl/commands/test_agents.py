"""/agents: the subagents of the session, and the work of each."""

import pytest

from tests.repl.conversation import said


def test_agents_command_lists_subagents_with_their_state() -> None:
    """On a pipe, one record per line; escapes in a task are shown, not obeyed."""
    assert said("/agents") == [
        "1  agent explore (find \\x1b[31mit)  read a.py · 9 s",
        "2  agent plan (plan it)  ended after 3 s",
    ]


def test_agents_command_shows_the_work_of_a_subagent() -> None:
    """Without a number, it is that of the running one."""
    assert said("/agents 2")[:3] == [
        "agent plan (plan it) · ended after 3 s",
        "its task:",
        "  find it",
    ]
    assert said("/agents show")[0].startswith("agent explore")


def test_agents_stop_stops_a_running_subagent() -> None:
    assert said("/agents stop 1", "/agents stop 2") == [
        "agent explore (find \\x1b[31mit): is being stopped",
        "agent plan (plan it): ended after 3 s",
    ]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("/agents 3", "there is no agent 3; /agents lists them"),
        ("/agents x", "x is not the number of an agent; /agents lists them"),
        ("/agents stop", "stop is not the number of an agent; /agents lists them"),
        ("/agents stop 1 2", "/agents takes a number, show, or stop NUMBER"),
    ],
)
def test_invalid_agents_argument_says_what_is_valid(line: str, words: str) -> None:
    assert said(line) == [words]
