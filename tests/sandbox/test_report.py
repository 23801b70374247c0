"""The description of the sandbox."""

import pytest

from agent_cli.sandbox.report import Report, State


@pytest.mark.parametrize(
    ("state", "word"),
    [
        ("bwrap", "bubblewrap"),
        ("landlock", "Landlock, .env readable"),
        ("none", "no sandbox"),
        ("off", "sandbox off"),
    ],
)
def test_the_status_line_says_in_a_word_what_holds_commands(state: State, word: str) -> None:
    """The limits of the second choice and a disabled sandbox are shown where users look."""
    assert Report(state).word == word
