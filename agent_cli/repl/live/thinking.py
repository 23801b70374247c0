"""The model's thinking: shown as it streams, or folded to one line with the whole kept."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from agent_cli.contracts.events import Event, MessageEnd, MessageUpdate
from agent_cli.contracts.messages import AssistantMessage
from agent_cli.contracts.provider import ThinkingDelta
from agent_cli.contracts.wording import seconds
from agent_cli.repl.live.backlog import Item, Rows
from agent_cli.repl.live.paint import Paint
from agent_cli.repl.live.sentences import sentence_rows


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
                    yield _with_text(event, piece, character)
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
        self._goes_on = partial(_with_text, update, piece)
        self._folded.append(piece.delta)

    def _end(self) -> Iterator[Rows]:
        if self._goes_on is None:
            return
        self._goes_on = None
        passed = seconds(self._clock() - self._began_s)
        yield Rows((self._paint.text(f"thought for {passed} · Ctrl-T shows it", "dim"),), "folded")


def _with_text(update: MessageUpdate, piece: ThinkingDelta, text: str) -> MessageUpdate:
    return replace(update, event=replace(piece, delta=text))
