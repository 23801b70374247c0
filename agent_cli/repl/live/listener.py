"""Who gets what is typed, and how what waits for that is shown."""

from collections.abc import Sequence
from typing import Final, Protocol

from agent_cli.terminal.sanitize import clean

# Wider than any terminal; a row is made at each key, however much was pasted.
_QUEUED_CHARS_MAX: Final = 500


class Listener(Protocol):
    """Who gets what is typed."""

    @property
    def is_busy(self) -> bool:
        """Whether something runs that can be steered and stopped."""
        ...

    @property
    def queued(self) -> Sequence[str]:
        """What waits to be delivered, one line each."""
        ...

    def submit(self, text: str, *, follow_up: bool) -> bool:
        """Take what was typed; False leaves it in the input."""
        ...

    def interrupt(self) -> None:
        """Stop what runs."""
        ...

    def take_back(self) -> str | None:
        """Return what was queued last, no longer queued."""
        ...

    def pause(self, *, paused: bool) -> None:
        """Hold the display, or let it go on."""
        ...


def queue_row(text: str, *, when: str = "when done") -> str:
    """Return the one line that shows how a queued *text* begins, and *when* it goes."""
    return f"  {when}: {' '.join(clean(text[:_QUEUED_CHARS_MAX]).split())}"
