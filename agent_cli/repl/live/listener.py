"""Who gets what is typed."""

from collections.abc import Sequence
from typing import Protocol


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
