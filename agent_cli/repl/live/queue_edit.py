"""Queued messages: the port that receives typed lines, and their editing with the arrow keys.

Imported before the first prompt: standard library and prompt_toolkit only.
"""

import math
from collections.abc import Callable, MutableSequence, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from prompt_toolkit.filters import Condition, has_completions, is_searching, vi_mode
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPressEvent

from agent_cli.repl.live.input import Draft
from agent_cli.repl.live.paint import row_width
from agent_cli.system.records import dataclass
from agent_cli.system.sanitize import clean

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
            False if *text*, now a command, failed: it stays in the input.
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


_ROWS_MAX: Final = 4
# A key that follows a drop so soon was meant for the message, and not for the run or the session.
_SAME_HAND_S: Final = 0.8
_EDITS: Final = " · ↑ edits"
_HINTS: Final = (
    "Enter keeps · Ctrl-D drops · Esc undoes · Alt-↑ Alt-↓ move it · ↑ ↓ others",
    "Enter keeps · Ctrl-D drops · Alt-↑↓ move it",
    "Enter · Ctrl-D drops · Esc",
    "Enter · Esc",
)


class QueueEdit:
    """The queued message that is in the input, if any: it is held, and keeps its place.

    A draft that was in the input returns to it afterwards.
    """

    def __init__(
        self,
        draft: Draft,
        listener: Callable[[], Listener],
        refresh: Callable[[], None],
        *,
        is_asked: Callable[[], bool],
        can_begin: Callable[[], bool],
        clock: Callable[[], float],
    ) -> None:
        """Edit nothing yet; *clock* is a monotonic clock, in seconds.

        *is_asked* returns whether the input belongs to a question, *can_begin* whether Arrow-up
        begins to edit: at a question it moves the mark.
        """
        self._draft = draft
        self._listener = listener
        self._refresh = refresh
        self._is_asked = is_asked
        self._can_begin = can_begin
        self._clock, self._dropped_at_s = clock, -math.inf
        self._edited: Queued | None = None
        self._put_aside = ""

    @property
    def is_active(self) -> bool:
        """Whether a queued message is in the input."""
        return self._edited is not None and not self._is_asked()

    @property
    def has_just_dropped(self) -> bool:
        """Whether a message was dropped a moment ago."""
        return self._clock() - self._dropped_at_s < _SAME_HAND_S

    def step(self, by: int) -> None:
        """Edit the message *by* places further; from no message, the last one."""
        messages = list(self._listener().queued)
        if self._edited is None:
            at, self._put_aside = len(messages), self._draft.buffer.text
        else:
            at = self._index_in(messages)
            self._release(self._draft.message or self._edited.text)
        at += by
        while 0 <= at < len(messages) and not self._listener().hold(messages[at]):
            at += by  # it is on its way to the model
        if 0 <= at < len(messages):
            self._edit(messages[at])
        elif at < 0 and self._edited and self._listener().hold(self._edited):
            self._edit(self._edited)  # the first one stays
        else:
            self._end()

    def keep(self) -> None:
        """Put the edited message back in its old position; drop it if it is empty."""
        if self._release(self._draft.message):
            self._end()
        else:  # a command that failed: its text stays in the input
            self._edited, left = None, self._draft.buffer.text
            self._draft.load("\n".join(part for part in (left, self._put_aside) if part))

    def drop(self) -> None:
        """Remove the message from the queue; its text is in the history."""
        self._release("")
        self._end()
        self._dropped_at_s = self._clock()

    def undo(self) -> None:
        """Put the message back unedited; the edited text is in the history."""
        if self._edited:
            self._release(self._edited.text)
            self._end()

    def finish(self) -> None:
        """Put the message back, with the changes unless it is empty: the queue is taken away."""
        if self._edited:
            self._release(self._draft.message or self._edited.text)
            self._end()

    def move(self, by: int) -> None:
        """Move the message *by* positions among the messages that are sent at the same time."""
        if self._edited:
            self._listener().move(self._edited, by)
            self._refresh()

    def put_aside(self, text: str) -> None:
        """Insert *text* at the start of the draft that returns afterwards."""
        self._put_aside = "\n".join(part for part in (text, self._put_aside) if part)

    def left(self) -> str:
        """Return the draft that was put aside: the session ends."""
        return self._put_aside

    def rows(self, columns: int, rows_max: int) -> Sequence[tuple[bool, str]]:
        """Return (is edited, text) for rows of the queue near the message being edited."""
        messages = self._listener().queued
        count = min(_ROWS_MAX, rows_max)
        first = max(len(messages) - count, 0)
        if self._edited in messages:
            first = min(first, max(self._index_in(messages) - count + 1, 0))
        shown = messages[first : first + count]
        rows = [(each is self._edited, self._row(each)) for each in shown]
        if first:
            rows.insert(0, (False, f"  … {first:,} more"))
        if below := len(messages) - first - len(shown):
            rows.append((False, f"  … {below:,} more ↓"))
        if self._edited:
            hints = (f"  {hint}" for hint in _HINTS)
            rows.append((False, next((row for row in hints if row_width(row) < columns), "")))
        elif rows and self._can_begin():
            rows[-1] = (False, f"{rows[-1][1]}{_EDITS}")
        return rows

    def _row(self, message: Queued) -> str:
        if message is not self._edited:
            return queue_row(message.text, when=message.when)
        return f"❯{queue_row(self._draft.text, when=message.when)[1:]}"

    def _edit(self, message: Queued) -> None:
        self._edited = message
        self._draft.load(message.text)
        self._refresh()

    def _release(self, text: str) -> bool:
        self._draft.keep(self._draft.buffer.text)
        return self._edited is None or self._listener().release(self._edited, text)

    def _end(self) -> None:
        self._edited = None
        self._draft.buffer.reset()
        self._draft.insert(self._put_aside)
        self._put_aside = ""
        self._refresh()

    def _index_in(self, messages: Sequence[Queued]) -> int:
        """Return where the edited message is among *messages*; behind the last if it is gone."""
        same = (at for at, each in enumerate(messages) if each is self._edited)
        return next(same, len(messages))


def bind_queue_keys(keys: KeyBindings, queue: QueueEdit, draft: Draft, has: Condition) -> None:
    """Bind the keys that edit queued messages, if the queue *has* some; bind them last."""
    empty = Condition(lambda: draft.is_empty)
    active = Condition(lambda: queue.is_active) & ~has_completions & ~is_searching

    @keys.add("up", filter=has & empty & ~active & ~is_searching)
    @keys.add("escape", "up", filter=has & ~active & ~vi_mode & ~is_searching)
    @keys.add("c-up", filter=has & ~active & ~is_searching)  # Alt-Up of most terminals
    def begin(_event: KeyPressEvent) -> None:
        queue.step(-1)

    @keys.add("up", filter=active)
    def up(event: KeyPressEvent) -> None:
        if event.current_buffer.document.on_first_line:
            queue.step(-1)
        else:
            event.current_buffer.cursor_up()

    @keys.add("down", filter=active)
    def down(event: KeyPressEvent) -> None:
        if event.current_buffer.document.on_last_line:
            queue.step(1)
        else:
            event.current_buffer.cursor_down()

    @keys.add("escape", "up", filter=active & ~vi_mode)
    @keys.add("c-up", filter=active)
    @keys.add("s-up", filter=active)
    def earlier(_event: KeyPressEvent) -> None:
        queue.move(-1)

    @keys.add("escape", "down", filter=active & ~vi_mode)
    @keys.add("c-down", filter=active)
    @keys.add("s-down", filter=active)
    def later(_event: KeyPressEvent) -> None:
        queue.move(1)

    @keys.add("escape", filter=active & ~vi_mode)
    @keys.add("c-c", filter=active)
    def undo(_event: KeyPressEvent) -> None:
        queue.undo()

    @keys.add("c-d", filter=active)
    def drop(_event: KeyPressEvent) -> None:
        queue.drop()

    dropped = Condition(lambda: queue.has_just_dropped) & ~active

    @keys.add("escape", filter=dropped & ~vi_mode)
    @keys.add("c-d", filter=dropped & empty)
    def ignore(_event: KeyPressEvent) -> None:
        """Neither stop the run nor leave."""
