"""A terminal emulator whose screen and scrollback can be read."""

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING

import pyte
from pyte.screens import Char


class Emulator(pyte.HistoryScreen):
    """pyte's screen with a scrollback; nobody turns its pages.

    pyte looks for a turned page before and after each step, which takes half of its time.
    """

    def __init__(self, columns: int, lines: int, history: int) -> None:
        """Create an empty screen with a scrollback of *history* rows."""
        super().__init__(columns, lines, history)
        self._scrolled: list[tuple[Mapping[int, Char], str]] = []
        self._shown: dict[int, str] = {}

    if not TYPE_CHECKING:  # as pyte's says that everything is a function
        __getattribute__ = object.__getattribute__

    def rows(self) -> list[dict[int, Char]]:
        """Return the cells of each row by column, scrolled rows first."""
        return [*self.history.top, *(self.buffer[number] for number in range(self.lines))]

    def texts(self) -> list[str]:
        """Return each row as text, without trailing blanks."""
        top, known = self.history.top, self._scrolled
        # Scrolled rows never change, but may be erased, and the oldest fall out.
        if known and (len(known) > len(top) or top[len(known) - 1] is not known[-1][0]):
            known.clear()
        known += [(row, text_of(row)) for row in islice(top, len(known), None)]
        # pyte notes which rows on the screen changed; most did not. An accent that is drawn in the
        # first column belongs to the row before, which pyte does not note.
        changed = self.dirty | {number - 1 for number in self.dirty if number}
        self._shown |= {number: text_of(self.buffer[number]) for number in changed}
        self.dirty.clear()
        return [*(text for _row, text in known), *(self._shown[at] for at in range(self.lines))]


def text_of(row: Mapping[int, Char]) -> str:
    """Return a row as text, without trailing blanks."""
    # A cell that was never drawn is a blank; the one behind a wide character has no text.
    return "".join(row[at].data for at in range(max(row, default=-1) + 1)).rstrip()
