"""The picker in place of the input line: a list that typed text filters."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout.containers import ConditionalContainer, HSplit, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
from prompt_toolkit.layout.dimension import Dimension

from agent_cli.repl.live.asking import SILENCE_S
from agent_cli.repl.live.paint import MARGIN, MARK, row_width, sentence_rows, shortened

FAINT: Final = "class:faint"
"""The style class of less important text below the prompt; see the layout."""
CHOSEN: Final = "reverse"
_HINTS: Final = (
    "type to filter · ↑ ↓ · Enter · Esc leaves",
    "↑ ↓ · Enter · Esc leaves",
    "Esc leaves",
)
_FILTER_CELLS: Final = 16  # that a question leaves for the filter
# More than the list has at most: the list and the question, with hints and status, fit even a
# window of six rows, and in one of 20 columns each word is a row.
_QUESTION_ROWS: Final = 2


class Picker:
    """Has its own line for the filter, so that the input keeps its text."""

    def __init__(
        self,
        rows_max: Callable[[], int],
        columns: Callable[[], int],
        put_back: Callable[[str], None],
        clock: Callable[[], float],
    ) -> None:
        """Show nothing yet.

        Args:
            rows_max: Returns the maximum number of rows of the list.
            columns: Returns the width of the terminal.
            put_back: Gets a filter that no row fits when the list is left, if it was begun before
                the list could be seen: it was meant as input.
            clock: A monotonic clock, in seconds.
        """
        self._put_back = put_back
        self._clock = clock
        self._opened_at_s = 0.0
        self._is_blind = False
        self._rows_max = rows_max
        self._columns = columns
        self._question = ""
        self._rows: Sequence[str] = ()
        self._selected = self._first = 0
        self._has_closed = False
        self._picked: asyncio.Future[int | None] | None = None
        self._filter = Buffer(multiline=False, on_text_changed=self._filtered)
        self._control = BufferControl(self._filter, key_bindings=self._keys())
        self.is_open = Condition(lambda: self._picked is not None)

    async def pick(
        self, app: Application[None], question: str, rows: Sequence[str], selected: int = 0
    ) -> int | None:
        """Return the index of the chosen row, at first *selected*; None if the user cancels."""
        if self._has_closed:
            return None
        self._question, self._rows = question, rows
        self._filter.reset()
        self._selected = self._first = selected
        self._opened_at_s, self._is_blind = self._clock(), False
        self._picked = asyncio.get_running_loop().create_future()
        app.layout.focus(self._control)
        app.vi_state.reset()  # in vi's normal mode no key would filter
        app.invalidate()
        try:
            return await self._picked
        finally:
            self._picked = None
            app.layout.focus_last()
            app.invalidate()
            if self._is_blind and self.typed and not self._fitting():
                self._put_back(self.typed)

    @property
    def typed(self) -> str:
        """The filter of this list, or of the last one."""
        return self._filter.text.strip()

    def close(self) -> None:
        """End the list without a choice, and all further ones at once: the session ends."""
        self._has_closed = True
        self._end(None)

    def container(self) -> ConditionalContainer:
        """Return the container shown while it is open: the filter, and the matching rows."""
        question = Window(
            FormattedTextControl(lambda: "\n".join(self._asked()[:-1])),
            height=lambda: Dimension.exact(len(self._asked()) - 1),
            dont_extend_height=True,
        )
        line = Window(
            self._control,
            height=1,
            get_line_prefix=lambda _number, _wrapped: [("", f"{self._asked()[-1]} ")],
        )
        rows = Window(
            FormattedTextControl(self._text),
            height=lambda: Dimension.exact(1 + min(self._rows_max(), len(self._fitting()))),
            dont_extend_height=True,
        )
        return ConditionalContainer(HSplit([question, line, rows]), filter=self.is_open)

    def _asked(self) -> list[str]:
        """Return the rows of the question; the filter stands behind the last one."""
        columns = self._columns()
        width = columns - min(_FILTER_CELLS, columns // 2)
        rows = sentence_rows(self._question, width)
        if len(rows) > (most := self._rows_max() + _QUESTION_ROWS):
            rows[most - 1 :] = [shortened(" ".join(rows[most - 1 :]), width)]
        return [self._cut(row) for row in rows]

    def _fitting(self) -> list[int]:
        """Return the indexes of the rows that contain every word of the filter."""
        words = self._filter.text.casefold().split()
        return [
            index
            for index, row in enumerate(self._rows)
            if all(word in row.casefold() for word in words)
        ]

    def _text(self) -> StyleAndTextTuples:
        fitting = self._fitting()
        first = max(0, self._selected - self._rows_max() + 1)
        parts: StyleAndTextTuples = []
        for row, index in enumerate(fitting[first : first + self._rows_max()], first):
            style, mark = (CHOSEN, MARK) if row == self._selected else ("", MARGIN)
            parts += [(style, self._cut(f"{mark}{self._rows[index]}")), ("", "\n")]
        below = len(fitting) - first - self._rows_max()
        count = f"{len(fitting)} of {len(self._rows)}"
        if below > 0:
            count = f"{below:,} more ↓"
        hints = (f"  {count} · {hint}" for hint in _HINTS)
        shown = next((hint for hint in hints if row_width(hint) < self._columns()), f"  {count}")
        return [*parts, (FAINT, self._cut(shown))]

    def _cut(self, text: str) -> str:
        return shortened(text, self._columns() - 1)

    def _filtered(self, filter: Buffer) -> None:
        self._selected = 0 if self.typed else self._first
        self._is_blind |= bool(filter.text) and self._clock() - self._opened_at_s < SILENCE_S

    def _move(self, rows: int) -> None:
        self._selected = max(0, min(self._selected + rows, len(self._fitting()) - 1))

    def _end(self, index: int | None) -> None:
        if self._picked and not self._picked.done():
            self._picked.set_result(index)

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("up")
        @keys.add("c-p")
        def up(_event: KeyPressEvent) -> None:
            self._move(-1)

        @keys.add("down")
        @keys.add("c-n")
        def down(_event: KeyPressEvent) -> None:
            self._move(1)

        @keys.add("pageup")
        def page_up(_event: KeyPressEvent) -> None:
            self._move(-self._rows_max())

        @keys.add("pagedown")
        def page_down(_event: KeyPressEvent) -> None:
            self._move(self._rows_max())

        @keys.add("enter")
        def take(_event: KeyPressEvent) -> None:
            if fitting := self._fitting():
                self._end(fitting[self._selected])

        @keys.add(Keys.BracketedPaste)
        def paste(event: KeyPressEvent) -> None:
            first, *_more = event.data.strip().splitlines() or [""]
            self._filter.insert_text(first)

        # What these keys do elsewhere, such as to end the session, is not meant for a list.
        @keys.add("escape")
        @keys.add("c-c")
        @keys.add("c-d")
        @keys.add("c-g")
        @keys.add("c-o")
        def leave(_event: KeyPressEvent) -> None:
            self._end(None)

        return keys
