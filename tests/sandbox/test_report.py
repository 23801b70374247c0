"""What is said of the sandbox."""

import pytest

from agent_cli.sandbox.report import Report, State


@pytest.mark.parametrize(
    ("state", "word"),
    [
        ("bwrap", "bubblewrap"),
        ("landlock", "Landlock"),
        ("none", "no sandbox"),
        ("off", "no sandbox"),
    ],
)
def test_the_status_line_says_in_a_word_what_holds_commands(state: State, word: str) -> None:
    """None and switched off are the same for who reads one word."""
    assert Report(state).word == word
