"""Paint the rows above the prompt: finished ones that scroll away, and a tail that is repainted.

The tail is painted here and not by prompt_toolkit, which would examine each of its cells at every
key: 4 ms instead of 0.6.
"""

from collections.abc import Sequence
from typing import Final

from agent_cli.repl.live.paint import cut, row_width, rows_taken, widest
from agent_cli.repl.live.shared_terminal import FrameOutput, LiveApplication, wraps_again

_TAIL_ROWS_MAX: Final = 12
_TAIL_ROWS_MIN: Final = 4
# The gap allows for one more change of the width, down to this share.
_NARROWER_BY: Final = 0.6
_ERASE_ROW: Final = "\x1b[2K"
_NO_WRAP: Final = "\x1b[?7l"
_WRAP: Final = "\x1b[?7h"


class Painter:
    """Paints all but the prompt. A row is text with colours and without control characters.

    Rows that cannot be painted now (another program has the screen, the window is being resized)
    are kept and painted with the next ones.
    """

    def __init__(self, app: LiveApplication, output: FrameOutput) -> None:
        self._app = app
        self._output = output
        self._tail: tuple[str, ...] = ()
        self._full_tail: tuple[str, ...] = ()
        self._finished: list[str] = []
        self._columns = 0
        self._headroom = 0  # minimum number of finished rows on the screen
        self._gap = 0  # blank rows at the top of the tail
        self._has_ended = False
        app.on_resize = self.repaint

    @property
    def answers_in_s(self) -> float:
        """The rest of the wait for an answer of the terminal, in seconds."""
        return self._app.answers_in_s()

    @property
    def rows_max(self) -> int:
        """Maximum number of rows of one thing: others on the screen stay visible."""
        return max(self._output.get_size().rows // 2 - 2, _TAIL_ROWS_MIN)

    @property
    def is_behind(self) -> bool:
        """Whether the terminal has not read the last frame yet: then skip frames, not keys."""
        return self._output.is_behind

    def show(self, finished: Sequence[str], tail: Sequence[str]) -> None:
        """Print *finished* permanently, and below them *tail* until the next call."""
        self._finished += finished
        self._full_tail = tuple(tail)
        if self._has_ended:
            self._write_out()
        if not self._app.can_draw:
            return
        fitting = self._fitting(self._full_tail)
        self._fill_gap(fitting)
        shown = (*[""] * self._gap, *fitting)
        if not self._finished and len(shown) == len(self._tail):
            self._rewrite(shown)
        elif self._finished or shown != self._tail:
            self._replace(shown)

    def outdate_prompt(self) -> None:
        """Let the prompt be examined with the next rows: it may have to show something else."""
        self._app.outdate()

    def print(self, rows: Sequence[str]) -> None:
        """Print *rows* permanently, above the current tail."""
        self.outdate_prompt()
        self.show(rows, self._full_tail)

    def retry(self) -> None:
        """Paint the kept rows."""
        if self._finished:
            self.show((), self._full_tail)

    def drop_tail(self) -> None:
        """Erase the tail: another program gets the screen, or the session ends."""
        self._gap = 0
        self.outdate_prompt()
        self.show((), ())

    def end(self) -> None:
        """From now on only print finished rows: the prompt has ended."""
        self._has_ended = True
        self._write_out()

    def _write_out(self) -> None:
        rows, self._finished = self._finished, []
        for row in rows:
            self._output.write_raw(f"{row}\r\n")
        self._output.flush()

    def repaint(self) -> None:
        """Redraw tail and prompt in place; the terminal may have moved them."""
        output, app = self._output, self._app
        columns, cursor = output.get_size().columns, app.cursor_position
        # Rows cut to the old width are not longer than that.
        widths = [min(row_width(row), self._columns) for row in self._tail] + app.row_widths()
        above = len(self._tail) + cursor.y
        if wraps_again():
            self._keep_away_from_top(widths, columns)
            above += _rows_added(widths[:above], columns) + cursor.x // max(columns, 1)
        with output.frame():
            self._go_up(above)
            output.erase_down()
            self._tail, self._columns = (), columns
            app.forget()
            app.draw()
        self.show((), self._full_tail)

    def _keep_away_from_top(self, widths: Sequence[int], columns: int) -> None:
        """Leave a gap above the tail if the next change of the width could push it off.

        Each row that wraps moves the first row of the screen into the scrollback, even if the
        screen is half empty, and a live row could not be erased there.
        """
        added = _rows_added(widths, columns)
        if columns > self._columns > 0:  # finished rows that were wrapped are single rows again
            self._headroom = self._headroom * self._columns // columns
        self._headroom = max(self._headroom - added, 0)
        self._gap += added
        self._narrow_gap(widths, columns)

    def _fill_gap(self, tail: Sequence[str]) -> None:
        """Shrink the gap by the finished rows, and if *tail* needs fewer rows."""
        size = self._output.get_size()
        rows = sum(rows_taken(row_width(row), size.columns) for row in self._finished)
        self._headroom += rows
        room = size.rows - self._app.height - len(tail) - 2
        self._gap = max(min(self._gap - rows, room), 0)
        if self._gap:
            self._narrow_gap([*map(row_width, tail), *self._app.row_widths()], size.columns)

    def _narrow_gap(self, widths: Sequence[int], columns: int) -> None:
        widths = [min(width, columns) for width in widths]
        gap = _rows_added(widths, int(columns * _NARROWER_BY)) - self._headroom
        self._gap = min(self._gap, max(gap, 0))

    def _fitting(self, rows: tuple[str, ...]) -> tuple[str, ...]:
        """Return the last rows that fit, none wider than the screen.

        Rows that scrolled off the screen, or wrapped, could not be erased.
        """
        size = self._output.get_size()
        room = min(_TAIL_ROWS_MAX, self.rows_max, size.rows - self._app.height - 2)
        return tuple(cut(row, size.columns) for row in rows[-room:]) if room > 0 else ()

    def _replace(self, tail: tuple[str, ...]) -> None:
        output, app = self._output, self._app
        size = output.get_size()
        with output.frame():
            self._go_up(app.cursor_position.y + len(self._tail))
            for row in self._finished:
                # A wrapped row would overwrite the rows below it.
                if widest(row) > size.columns:
                    output.erase_down()
                output.write_raw(f"{_ERASE_ROW}{row}\r\n")
            if tail:
                rows = "".join(f"{_ERASE_ROW}{row}\r\n" for row in tail)
                output.write_raw(f"{_NO_WRAP}{rows}{_WRAP}")
            self._finished, self._tail, self._columns = [], tail, size.columns
            app.draw()
        self._headroom = min(self._headroom, max(size.rows - len(tail) - app.height, 0))

    def _rewrite(self, tail: tuple[str, ...]) -> None:
        """Write the changed rows of the tail; the prompt is not touched."""
        changed = [i for i, row in enumerate(tail) if row != self._tail[i]]
        if not changed:
            return
        cursor = self._app.cursor_position
        output = self._output
        with output.frame():
            at = 0
            self._go_up(cursor.y + len(tail))
            for index in changed:
                output.cursor_down(index - at)
                output.write_raw(f"\r{_ERASE_ROW}{_NO_WRAP}{tail[index]}{_WRAP}\r")
                at = index
            output.cursor_down(len(tail) + cursor.y - at)
            output.cursor_forward(cursor.x)
        self._tail = tail

    def _go_up(self, rows: int) -> None:
        self._output.write_raw("\r")
        self._output.cursor_up(rows)


def _rows_added(widths: Sequence[int], columns: int) -> int:
    """Return the number of additional rows after the terminal wraps rows of these *widths*."""
    return sum(rows_taken(width, columns) - 1 for width in widths)
