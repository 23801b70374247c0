"""The port that receives typed lines, and the display of queued ones."""

from collections.abc import Sequence
from typing import Final, Protocol

from agent_cli.terminal.sanitize import clean

# Wider than any terminal; limits the work at each key after a large paste.
_QUEUED_CHARS_MAX: Final = 500


class Listener(Protocol):
    """Port that receives typed lines."""

    @property
    def is_busy(self) -> bool:
        """Whether a run or command is active that can be steered or stopped."""
        ...

    @property
    def queued(self) -> Sequence[str]:
        """The queued messages, one line each."""
        ...

    def submit(self, text: str, *, follow_up: bool) -> bool:
        """Accept a typed line; False leaves it in the input."""
        ...

    def is_command(self, text: str) -> bool:
        """Return whether *text* is a command of this program, and nothing for the model."""
        ...

    def interrupt(self) -> None:
        """Stop the current run or command."""
        ...

    def take_back(self) -> str | None:
        """Remove the message queued last and return its text."""
        ...

    def pause(self, *, paused: bool) -> None:
        """Pause the display, or resume it."""
        ...


def queue_row(text: str, *, when: str = "when done") -> str:
    """Return the row with the beginning of a queued *text*, and *when* it will be sent."""
    return f"  {when}: {' '.join(clean(text[:_QUEUED_CHARS_MAX]).split())}"
