"""The description of the sandbox for the status line."""

from agent_cli.sandbox.report import Report, State
from tests.tables import each_row


@each_row(
    ("state", "word"),
    [
        ("bwrap", "bubblewrap"),
        ("landlock", "Landlock, .env readable"),
        ("none", "no sandbox"),
        ("off", "sandbox off"),
    ],
)
def test_status_line_word_names_the_sandbox_or_its_absence(state: State, word: str) -> None:
    """Users see at once that Landlock has gaps, or that the sandbox is off."""
    assert Report(state).word == word
