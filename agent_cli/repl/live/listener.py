"""The port that receives typed lines, and the display of queued ones."""

from collections.abc import MutableSequence, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from agent_cli.system.records import dataclass
from agent_cli.terminal.sanitize import clean

if TYPE_CHECKING:
    from agent_cli.contracts.cancel import CancelToken

# Wider than any terminal; limits the work at each key after a large paste.
_QUEUED_CHARS_MAX: Final = 500


@dataclass(slots=True, eq=False)
class Queued:
    """A queued message, and *when* it will be sent; while it `is_held` it is being edited."""

    text: str
    when: str = "when done"
    is_held: bool = False


class Listener(Protocol):
    """Port that receives typed lines."""

    @property
    def is_busy(self) -> bool:
        """Whether a run or command is active that can be steered or stopped."""
        ...

    @property
    def aside(self) -> "CancelToken | None":
        """Stops a command that runs beside other work, if any: Esc ends it first."""
        ...

    @property
    def queued(self) -> Sequence[Queued]:
        """The queued messages in order."""
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

    def hold(self, message: Queued) -> bool:
        """Keep *message* where it stands, undelivered; False if it is too late."""
        ...

    def release(self, message: Queued, text: str) -> bool:
        """Put a held *message* back with another *text*; drop it if that is empty.

        Returns:
            False if *text*, now a command, cannot run: it stays in the input.
        """
        ...

    def move(self, message: Queued, by: int) -> None:
        """Move a held *message* *by* places."""
        ...

    def pause(self, *, paused: bool) -> None:
        """Pause the display, or resume it."""
        ...


def release_line(lines: MutableSequence[Queued], message: Queued, text: str) -> None:
    """Put *message* back among the *lines* with another *text*; drop it if that is empty."""
    message.is_held = False
    message.text = text
    if not text:
        lines.remove(message)


def move_line(lines: MutableSequence[Queued], message: Queued, by: int) -> None:
    """Move *message* *by* places among the *lines*, at most to an end."""
    index = min(max(lines.index(message) + by, 0), len(lines) - 1)
    lines.remove(message)
    lines.insert(index, message)


def queue_row(text: str, *, when: str) -> str:
    """Return the row with the beginning of a queued *text*, and *when* it will be sent."""
    return f"  {when}: {' '.join(clean(text[:_QUEUED_CHARS_MAX]).split())}"
