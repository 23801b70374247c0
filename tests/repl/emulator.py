"""A terminal emulator whose screen and scrollback can be read."""

from typing import TYPE_CHECKING

import pyte
from pyte.screens import Char


class Emulator(pyte.HistoryScreen):
    """pyte's screen with a scrollback; nobody turns its pages.

    pyte looks for a turned page before and after each step, which takes half of its time.
    """

    if not TYPE_CHECKING:  # as pyte's says that everything is a function
        __getattribute__ = object.__getattribute__

    def rows(self) -> list[dict[int, Char]]:
        """Return the cells of each row by column, scrolled rows first."""
        return [*self.history.top, *(self.buffer[number] for number in range(self.lines))]

    def texts(self) -> list[str]:
        """Return each row as text, without trailing blanks."""
        # A cell that was never drawn is a blank; the one behind a wide character has no text.
        return [
            "".join(row[at].data for at in range(max(row, default=-1) + 1)).rstrip()
            for row in self.rows()
        ]
