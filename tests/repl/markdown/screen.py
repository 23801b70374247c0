"""A terminal that can be read back: its scrollback and its screen."""

from collections.abc import Sequence

import pyte


class Terminal:
    """A VT emulator with scrollback; text is compared with its styles."""

    def __init__(self, width: int, height: int = 24) -> None:
        self._screen = pyte.HistoryScreen(width, height, history=1_000_000)
        self._stream = pyte.Stream(self._screen)

    def write(self, text: str) -> None:
        self._stream.feed(text)

    def resize(self, width: int) -> None:
        self._screen.resize(columns=width)

    def lines(self) -> list[str]:
        """Return the text of all rows, without blank ones at the end."""
        texts = ["".join(cell.data for cell in row).rstrip() for row in self._rows()]
        while texts and not texts[-1]:
            texts.pop()
        return texts

    def cells(self) -> list[list[tuple[object, ...]]]:
        """Return every non-blank cell with its style; without blank rows at the end."""
        rows: list[list[tuple[object, ...]]] = [
            [tuple(cell) for cell in row if cell.data.strip()] for row in self._rows()
        ]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    def _rows(self) -> list[list[pyte.screens.Char]]:
        rows = [
            *self._screen.history.top,
            *(self._screen.buffer[number] for number in range(self._screen.lines)),
        ]
        return [[row[column] for column in range(self._screen.columns)] for row in rows]


def printed(rows: Sequence[str], width: int, height: int = 24) -> Terminal:
    """Return a new terminal on which only *rows* were printed."""
    terminal = Terminal(width, height)
    terminal.write("".join(f"{row}\r\n" for row in rows))
    return terminal
