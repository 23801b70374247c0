"""Paint events in order, at a limited number of frames per second."""

import asyncio
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Final

from agent_cli.contracts.events import Event, MessageUpdate
from agent_cli.contracts.wording import counted
from agent_cli.repl.approval.preview import Row
from agent_cli.repl.live.backlog import Backlog, Item, Rows, StreamingFilter, Thinking
from agent_cli.repl.live.paint import Paint, rows_of, sentence_rows
from agent_cli.repl.live.painter import Painter
from agent_cli.repl.live.shared_terminal import copy_to_file
from agent_cli.repl.live.view import SessionView, question_rows
from agent_cli.repl.markdown import THEMES, rendered
from agent_cli.system.logger import logger
from agent_cli.terminal.narration import HostedView, narrate
from agent_cli.terminal.writer import Style

_log = logger(__name__)
_FRAME_S: Final = 0.05
_IDLE_FRAME_S: Final = 0.125
# Keys are handled between slices of work, however much text arrived at once.
_SLICE_S: Final = 0.003
# The tab width that programs rely on for columns.
_TERMINAL_TAB_CELLS: Final = 8


class Display:
    """An event sink that returns at once, and a task that paints."""

    def __init__(
        self,
        view: SessionView,
        painter: Painter,
        backlog: Backlog,
        thinking: Thinking,
        streaming: StreamingFilter,
        *,
        paint: Paint,
        columns: Callable[[], int],
        refresh: Callable[[], None],
    ) -> None:
        """Show nothing yet; *refresh* redraws the status line, which shows the paused count."""
        self._view = view
        self._painter = painter
        self._backlog = backlog
        self._thinking = thinking
        self._streaming = streaming
        self._hosted = HostedView()
        self._paint = paint
        self._columns = columns
        self._refresh = refresh
        self._changed = asyncio.Event()
        self._asked: list[str] = []  # what the last question is about
        self._is_asked_whole = self._is_asked_covered = False

    def __call__(self, event: Event) -> None:
        """Queue *event* for the next frame."""
        for each in self._hosted(event):
            self._put(*self._thinking(each))
        if (sentence := narrate(event)) and sentence.style in ("warning", "error"):
            copy_to_file(sentence.text)

    def user_message(self, rows: list[str]) -> None:
        """Print the user's message, after all earlier events."""
        self._put(Rows(tuple(rows), "said", wait=True))

    def aside(self, text: str, style: Style = "plain", *, wait: bool = False) -> None:
        """Print lines of this program, wrapped between words, or unwrapped if from a file.

        Those that *wait* are not shown while a question is open.
        """
        begin = self._paint.begin(style)
        is_file = style in ("added", "removed")
        rows = rows_of(text, begin) if is_file else sentence_rows(text, self._columns(), begin)
        self._put(Rows(tuple(rows), wait=wait))

    def foreign(self, text: str, style: Style = "plain") -> None:
        """Print lines of another program that runs, unwrapped."""
        self._put(Rows(self._unwrapped(text, style), wait=True))

    def folded(self, text: str) -> None:
        """Print output of another program that was folded, unwrapped, also at a question."""
        self._put(Rows(self._unwrapped(text, "plain")))

    def _unwrapped(self, text: str, style: Style) -> tuple[str, ...]:
        return (*rows_of(text, self._paint.begin(style), tab_cells=_TERMINAL_TAB_CELLS),)

    def markdown(self, text: str, *, wait: bool = False) -> None:
        """Print the Markdown *text*; see `aside` for *wait*."""
        rows = rendered(text, self._columns(), THEMES[self._paint.theme])
        self._put(Rows(tuple(rows), wait=wait))

    def drawn(self, rows: list[str]) -> None:
        """Print rows that are already rendered."""
        self._put(Rows(tuple(rows)))

    def question(self, rows: Iterable[Row]) -> None:
        """Print the first rows of a question; its others follow until they are shown."""
        self._asked, self._is_asked_whole, self._is_asked_covered = [], False, False
        self.drawn(question_rows(rows, self._paint, self._columns()))

    @contextmanager
    def asking(self) -> Generator[None]:
        """Give a dialog the room of the live rows, from its first row until it has ended.

        Dropped below rows that are printed already, they would have pushed those off the screen.
        """
        self.leave_space()
        self.show_now()
        self._view.is_asked = True
        self.paint_now()
        try:
            yield
        finally:
            self._view.is_asked = False
            self.wake()

    def leave_space(self) -> None:
        """Print a blank row, unless there is one, to end a group of rows."""
        self._put(Rows((), "gap"))

    def notice(self, text: str, style: Style = "plain", *, wait: bool = False) -> None:
        """Print a notice; warnings also go to stderr if that is a file."""
        self.aside(text, style, wait=wait)
        if style in ("warning", "error"):
            copy_to_file(text)

    @property
    def is_paused(self) -> bool:
        """Whether the display is held."""
        return self._backlog.paused

    @property
    def held(self) -> str:
        """The amount held back by a paused display, for the status line; "" if not paused."""
        if not self.is_paused:
            return ""
        chars, items = self._backlog.waiting_chars, self._backlog.waiting_items
        held = counted(chars, "character") if chars else counted(items, "update")
        return f"paused, {held} held: Ctrl-Q resumes"

    def wake(self) -> None:
        """Paint soon, because something changed without an event."""
        self._changed.set()

    def pause(self, *, paused: bool) -> None:
        """Pause the display, or resume it where it stopped."""
        self._backlog.paused = paused
        self._changed.set()

    def hurry(self) -> None:
        """Release all waiting items at once, because of a question or an interrupt."""
        self._backlog.paused = False
        self._backlog.skip_wait()
        self._changed.set()

    def repeat_question(self) -> None:
        """Show again soon what the open question is about, if one is: other rows stand below."""
        self._is_asked_covered = bool(self._asked)
        self._changed.set()

    def show_now(self) -> None:
        """Paint everything now that the user must see before a question."""
        self.hurry()
        self.flush()
        self._is_asked_whole = True

    async def run(self) -> None:
        """Paint until cancelled."""
        while True:
            await self._something_to_show()
            self._changed.clear()
            await self.frame()
            await asyncio.sleep(_FRAME_S)

    async def frame(self) -> None:
        """Paint one frame."""
        if self._painter.is_behind:
            self._changed.set()
            return
        begun_s = time.monotonic()
        for item in self._backlog.take():
            self._take_in(item)
            if time.monotonic() - begun_s > _SLICE_S:
                await asyncio.sleep(0)
                begun_s = time.monotonic()
        self._repeat_question()
        self.paint_now()
        if self.is_paused:
            self._refresh()

    def flush(self) -> None:
        """Paint everything that may be shown, without yielding to other tasks."""
        for item in self._backlog.take():
            self._take_in(item)
        self._repeat_question()
        self.paint_now()

    def paint_now(self) -> None:
        """Paint the rows processed so far."""
        self._painter.show(self._view.finished(), self._view.tail())

    def toggle_thinking(self) -> None:
        """Show thinking, beginning with the last folded one; or fold it from now on."""
        self._put(*self._thinking.toggle())

    def _put(self, *items: Item) -> None:
        for item in items:
            if isinstance(item, Rows) and not item.wait:
                self._note(item)
            for shown in [item] if isinstance(item, Rows) else self._streaming(item):
                self._backlog.put(shown)
        self._changed.set()

    def _note(self, rows: Rows) -> None:
        """Note *rows* of a question, or that they stand below those while it is open."""
        if not self._is_asked_whole:
            self._asked += rows.rows
        elif not self._view.is_open():
            self._asked = []
        elif self._asked and rows.rows and not self._is_asked_covered:
            self._is_asked_covered = True
            self._backlog.put(Rows(("",)))

    def _repeat_question(self) -> None:
        """Show again what the open question is about; of too many rows only the title."""
        if self._is_asked_covered and self._view.is_open():
            asked = self._asked if len(self._asked) <= self._painter.rows_max else self._asked[:1]
            self._take_in(Rows(("", *asked)))
        self._is_asked_covered = False

    def _take_in(self, item: Item) -> None:
        if not isinstance(item, MessageUpdate):  # e.g. a badge or the to-do list may have changed
            self._painter.outdate_prompt()
        try:
            self._view.show(item)
        except Exception:
            # An error in drawing one row must not end the session.
            _log.exception("event not shown", item_type=type(item).__name__)

    async def _something_to_show(self) -> None:
        if self._backlog and not self._backlog.paused:
            return
        try:
            async with asyncio.timeout(_IDLE_FRAME_S if self._view.is_moving else None):
                await self._changed.wait()
        except TimeoutError:
            pass  # only the time changed
