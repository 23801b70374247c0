"""Events as rows: finished ones for good, and the tail of what still goes on."""

import shutil
from collections.abc import Callable
from typing import Final

from agent_cli import events
from agent_cli.messages import AssistantMessage
from agent_cli.phase import Phase
from agent_cli.provider import TextDelta, ThinkingDelta
from agent_cli.repl.live.backlog import Item, Rows
from agent_cli.repl.live.paint import Paint, rows_of
from agent_cli.repl.live.sequence import Streaming
from agent_cli.repl.live.tool_rows import ToolRows
from agent_cli.repl.markdown import MarkdownStream, Theme
from agent_cli.terminal.narration import narrate, seconds
from agent_cli.terminal.sanitize import Filter

_SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAMES_PER_S: Final = 8
_TAIL_ROWS_MAX: Final = 12
_DIM: Final = "2"


class View:
    """What a session looks like. `show` takes what happened, `finished` and `tail` are the rows.

    Draws nothing, waits for nothing, and knows only events.
    """

    def __init__(
        self,
        tools: ToolRows,
        *,
        paint: Paint,
        theme: Theme,
        streaming: Streaming,
        clock: Callable[[], float],
    ) -> None:
        self._tools = tools
        self._paint = paint
        self._theme = theme
        self._sequential = streaming == "sequential"
        self._clock = clock
        self._rows: list[str] = []
        self._filter = Filter()
        self._answer: MarkdownStream | None = None
        self._thought = ""
        self._phase: str = Phase.IDLE
        self._began_s: float | None = None

    def use_theme(self, theme: Theme) -> None:
        """Show answers that have not begun yet in *theme*."""
        self._theme = theme

    @property
    def is_moving(self) -> bool:
        """Whether the tail changes by itself: seconds pass."""
        return self._began_s is not None

    def show(self, item: Item) -> None:
        """Take in what happened next."""
        match item:
            case Rows(rows=rows):  # above an answer that streams, which they must not cut in two
                self._rows += rows
            case events.AgentStart():
                self._began_s = self._clock()
            case events.AgentEnd():
                self._end_run()
            case events.StateChanged(after=after):
                self._phase = after
            case events.MessageUpdate(event=TextDelta(delta=delta)):
                self._add_text(delta)
            case events.MessageUpdate(event=ThinkingDelta(delta=delta)):
                self._add_thought(delta)
            case events.MessageEnd(message=AssistantMessage() as message):
                self._end_message(message)
            case _:
                self._show_other(item)

    def _show_other(self, event: events.Event) -> None:
        if self._tools.show(event):
            self._end_flow()
            self._rows += self._tools.finished()
        elif sentence := narrate(event):
            self._rows += rows_of(sentence.text, self._paint.style(sentence.style))

    def finished(self) -> list[str]:
        """Return the rows that are finished since the last call."""
        rows, self._rows = self._rows, []
        return rows

    def tail(self) -> list[str]:
        """Return the rows of what goes on right now."""
        rows = self._tools.tail(self._spinner())
        if self._thought:
            rows.append(self._paint.text(self._thought, _DIM))
        if self._answer:
            self._answer.resize(_columns())
            rows += self._answer.tail(_TAIL_ROWS_MAX)
        if self._began_s is not None and not self._tools.is_running and not self._answer:
            word = "thinking" if self._phase == Phase.THINKING else "working"
            passed = seconds(int(self._clock() - self._began_s))
            rows.append(self._paint.text(f"{self._spinner()} {word} {passed} · Esc stops", _DIM))
        return rows

    def _add_text(self, delta: str) -> None:
        if self._thought:
            self._end_flow()
        if self._answer is None:
            self._answer = MarkdownStream(_columns(), self._theme)
        self._rows += self._answer.feed(self._filter.feed(delta))

    def _add_thought(self, delta: str) -> None:
        """Thinking has rows of its own; S4 lets it be shown in two phases only."""
        assert self._phase in (Phase.THINKING, Phase.PLANNING_TOOLS), self._phase
        *rows, self._thought = (self._thought + self._filter.feed(delta)).split("\n")
        self._rows += [self._paint.text(row, _DIM) for row in rows]

    def _end_message(self, message: AssistantMessage) -> None:
        self._end_flow()
        if self._sequential and message.tool_calls and message.error is None and message.text:
            self._rows += rows_of(message.text.rstrip(), self._paint.sgr(_DIM))

    def _end_flow(self) -> None:
        """End what streams: what comes next begins a row."""
        self._filter.reset()
        if self._thought:
            self._rows.append(self._paint.text(self._thought, _DIM))
            self._thought = ""
        if self._answer:
            self._rows += self._answer.finish()
            self._answer = None

    def _end_run(self) -> None:
        self._end_flow()
        self._tools.end()
        self._rows += self._tools.finished()
        self._began_s = None

    def _spinner(self) -> str:
        return _SPINNER[int(self._clock() * _FRAMES_PER_S) % len(_SPINNER)]


def _columns() -> int:
    return shutil.get_terminal_size().columns
