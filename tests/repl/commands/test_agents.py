"""/agents: the subagents of the session, and the work of each."""

import pytest

from tests.repl.conversation import said


def test_agents_are_listed_with_what_they_do() -> None:
    """On a pipe one record a line; escapes in a task are shown, not obeyed."""
    assert said("/agents") == [
        "1  agent explore (find \\x1b[31mit)  read a.py · 9 s",
        "2  agent plan (plan it)  ended after 3 s",
    ]


def test_what_an_agent_did_is_shown() -> None:
    """Without a number, the log of the running one."""
    assert said("/agents 2") == ["what agent plan (plan it) did"]
    assert said("/agents show")[0].startswith("what agent explore")


def test_an_agent_is_stopped() -> None:
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
def test_what_cannot_be_done_says_what_can(line: str, words: str) -> None:
    assert said(line) == [words]
