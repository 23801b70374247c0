"""The queue of events and rows not yet on the screen, and the filters of events before it."""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Final, Literal, TypeAlias

from agent_cli.contracts.events import (
    Event,
    MessageEnd,
    MessageUpdate,
    StateChanged,
    ToolExecutionUpdate,
    TurnEnd,
)
from agent_cli.contracts.messages import AssistantMessage
from agent_cli.contracts.options import Streaming
from agent_cli.contracts.provider import TextDelta, ThinkingDelta
from agent_cli.contracts.side_events import ToolAttemptUpdate
from agent_cli.contracts.wording import seconds
from agent_cli.core.run import CONTENT_STREAMED, Phase
from agent_cli.repl.live.paint import Paint, sentence_rows
from agent_cli.system.records import dataclass
from agent_cli.terminal.narration import cited_text, words

HELD_CHARS_MAX: Final = 1_000_000
# Between two joined texts, keys are handled.
_JOINED_CHARS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of the program itself, such as a command's output, among the events.

    Rows of one kind form a group, separated by a blank row from other kinds. The kind "gap" has no
    rows: it adds the blank row before the next kind is known. "folded" is the row of folded
    thinking, which goes with the calls of tools. Those that `wait` are not shown while a question
    is open.
    """

    rows: tuple[str, ...]
    kind: Literal["own", "said", "thought", "folded", "tools", "gap"] = "own"
    wait: bool = False


Item: TypeAlias = Event | Rows


class Backlog:
    """A FIFO queue that loses nothing.

    Text leaves at `chars_per_second`, 0 meaning at once. While paused nothing leaves, unless more
    than `chars_max` characters wait, output of running tools included: then the oldest are
    released. A run never waits for this.
    """

    def __init__(
        self,
        *,
        chars_per_second: float,
        clock: Callable[[], float],
        chars_max: int = HELD_CHARS_MAX,
    ) -> None:
        self.chars_per_second = chars_per_second
        self.paused = False
        self._clock = clock
        self._chars_max = chars_max
        self._items: deque[Item] = deque()
        self._chars = 0
        self._size = 0  # of all waiting items, text included
        self._paid_until_s = 0.0

    @property
    def waiting_chars(self) -> int:
        """Number of waiting characters of text."""
        return self._chars

    @property
    def waiting_items(self) -> int:
        """Number of waiting events and rows, pieces of text included."""
        return len(self._items)

    def __bool__(self) -> bool:
        return bool(self._items)

    def put(self, item: Item) -> None:
        """Append *item*."""
        if not self._chars:
            self._paid_until_s = max(self._paid_until_s, self._clock())
        self._items.append(item)
        chars = len(text_of(item))
        self._chars += chars
        self._size += chars or _size_of(item)

    def take(self) -> Iterator[Item]:
        """Yield the items that may be shown now; texts may come in pieces, or joined."""
        allowed = self._allowance()
        while self._items:
            too_much = self._size - self._chars_max
            if self.paused and too_much <= 0:
                return
            size = len(text_of(self._items[0]))
            if not size:
                self._size -= _size_of(self._items[0])
                yield self._items.popleft()
                continue
            if self.paused:
                allowed = too_much
            if allowed <= 0:
                return
            item = self._joined(min(allowed, max(size, _JOINED_CHARS_MAX)))
            allowed -= len(text_of(item))
            yield item

    def skip_wait(self) -> None:
        """Release all waiting items at once, whatever the speed."""
        self._paid_until_s = float("-inf")

    def _allowance(self) -> int:
        too_many = self._chars - self._chars_max
        if self.paused:
            self._paid_until_s = self._clock()
            return 0
        if not self.chars_per_second:
            return self._chars
        earned = (self._clock() - self._paid_until_s) * self.chars_per_second
        allowed = self._chars if earned >= self._chars else int(earned)
        self._paid_until_s += allowed / self.chars_per_second
        return max(allowed, too_many)

    def _joined(self, size: int) -> Item:
        """Take text of at most *size* characters, adjacent pieces as one, and return it.

        Showing one piece costs as much as showing fifty joined ones.
        """
        item = self._items[0]
        parts = [self._cut(size)]
        size -= len(parts[0])
        while size and self._items and _continues(item, self._items[0]):
            parts.append(self._cut(size))
            size -= len(parts[-1])
        return _with_text(item, "".join(parts))

    def _cut(self, size: int) -> str:
        """Take at most *size* characters of the first item's text, and return them."""
        item = self._items.popleft()
        text = text_of(item)
        if len(text) > size:
            self._items.appendleft(_with_text(item, text[size:]))
            text = text[:size]
        self._chars -= len(text)
        self._size -= len(text) or _size_of(item)
        return text


def text_of(item: Item) -> str:
    """Return the text of an item; "" unless it is a piece of a reply."""
    match item:
        case MessageUpdate(event=TextDelta(delta=text) | ThinkingDelta(delta=text)):
            return text
        case _:
            return ""


def _size_of(item: Item) -> int:
    """Return the number of characters an item without text keeps in memory, at least 1."""
    match item:
        case Rows(rows=rows):
            size = sum(map(len, rows))
        case (
            ToolExecutionUpdate(partial_result=partial) | ToolAttemptUpdate(partial_result=partial)
        ):
            size = len(partial.text)
        case _:
            size = 1
    return max(size, 1)


def _continues(item: Item, following: Item) -> bool:
    """Return whether *following* is more text of the same block as *item*."""
    match item, following:
        case MessageUpdate(event=TextDelta(index=one)), MessageUpdate(event=TextDelta(index=other)):
            return one == other
        case _:
            return False


def _with_text(item: Item, text: str) -> Item:
    match item:
        case MessageUpdate(event=TextDelta() | ThinkingDelta() as event):
            return replace(item, event=replace(event, delta=text))
        case _:
            raise AssertionError(f"{item} holds no text")


class Thinking:
    """Removes thinking from the events unless it is shown; keeps the last folded one.

    Folded thinking never reaches the display's queue, so it takes no time there.
    """

    def __init__(
        self,
        *,
        is_shown: bool,
        paint: Paint,
        clock: Callable[[], float],
        columns: Callable[[], int],
    ) -> None:
        self._is_shown = is_shown
        self._paint = paint
        self._clock = clock
        self._columns = columns
        self._folded: list[str] = []
        # Set while thinking is being folded: makes a thinking event with another text.
        self._goes_on: Callable[[str], MessageUpdate] | None = None
        self._began_s = 0.0

    def __call__(self, event: Event) -> Iterator[Item]:
        """Yield the events to show for *event*: thinking itself, or its folded line."""
        match event:
            case MessageUpdate(event=ThinkingDelta(delta="")):
                pass  # the model is thinking, but its text is not shown
            case MessageUpdate(event=ThinkingDelta() as piece) if self._is_shown:
                for character in piece.delta:
                    yield _with_thought(event, piece, character)
            case MessageUpdate(event=ThinkingDelta() as piece):
                self._fold(event, piece)
            case MessageUpdate() | MessageEnd(message=AssistantMessage()):
                yield from self._end()
                yield event
            case _:
                yield event

    def toggle(self) -> Iterator[Item]:
        """Show the last folded thinking and all further thinking; or fold from now on."""
        self._is_shown = not self._is_shown
        text, self._folded = "".join(self._folded), []
        goes_on, self._goes_on = self._goes_on, None
        if not self._is_shown:
            yield self._rows_of("thinking is hidden from now on; Ctrl-T shows it")
        elif goes_on:  # its last row continues as well
            yield goes_on(text)
        else:
            yield self._rows_of(text.strip() or "thinking is shown from now on; Ctrl-T hides it")

    def _rows_of(self, text: str) -> Rows:
        return Rows((*sentence_rows(text, self._columns(), self._paint.begin("dim")),), "thought")

    def _fold(self, update: MessageUpdate, piece: ThinkingDelta) -> None:
        if self._goes_on is None:
            self._folded = []
            self._began_s = self._clock()
        self._goes_on = partial(_with_thought, update, piece)
        self._folded.append(piece.delta)

    def _end(self) -> Iterator[Rows]:
        if self._goes_on is None:
            return
        self._goes_on = None
        passed = seconds(self._clock() - self._began_s)
        yield Rows((self._paint.text(f"thought for {passed} · Ctrl-T shows it", "dim"),), "folded")


def _with_thought(update: MessageUpdate, piece: ThinkingDelta, text: str) -> MessageUpdate:
    return replace(update, event=replace(piece, delta=text))


class StreamingFilter:
    """Filters and splits events for display.

    Live, a reply passes unchanged. Sequential, its text is held back while it streams: an answer is
    shown word by word once the run is responding, text before tool calls is shown whole before
    them, and a reply that broke off is never shown.
    """

    def __init__(self, streaming: Streaming) -> None:
        self._live = streaming == "live"
        self._answer: MessageEnd | None = None

    def __call__(self, event: Event) -> Iterator[Event]:
        """Yield the events to show for *event*."""
        match event:
            case MessageUpdate(event=TextDelta()) if not self._live:
                pass
            case MessageEnd(message=AssistantMessage()) if not self._live:
                self._answer = event
            case StateChanged(after=after) if after in CONTENT_STREAMED:
                yield event
                yield from self._release(in_words=True)
            case StateChanged(before=Phase.THINKING) | TurnEnd():
                yield from self._release(in_words=False)
                yield event
            case _:
                yield event

    def _release(self, *, in_words: bool) -> Iterator[Event]:
        held, self._answer = self._answer, None
        if held is None or not isinstance(message := held.message, AssistantMessage):
            return
        if in_words and not message.broke_off:
            for word in words(cited_text(message.content)):
                yield MessageUpdate(lambda: message, TextDelta(0, word))
        yield held
