"""A terminal that can be read back: its scrollback and its screen."""

from collections.abc import Sequence

import pyte

from tests.repl.emulator import Emulator


class Terminal:
    """A VT emulator with scrollback; text is compared with its styles."""

    def __init__(self, width: int, height: int = 24) -> None:
        self._screen = Emulator(width, height, history=1_000_000)
        self._stream = pyte.Stream(self._screen)

    def write(self, text: str) -> None:
        self._stream.feed(text)

    def resize(self, width: int) -> None:
        self._screen.resize(columns=width)

    def lines(self) -> list[str]:
        """Return the text of all rows, without blank ones at the end."""
        texts = self._screen.texts()
        while texts and not texts[-1]:
            texts.pop()
        return texts

    def cells(self) -> list[list[tuple[object, ...]]]:
        """Return every non-blank cell with its style; without blank rows at the end."""
        rows: list[list[tuple[object, ...]]] = [
            [tuple(row[at]) for at in sorted(row) if row[at].data.strip()]
            for row in self._screen.rows()
        ]
        while rows and not rows[-1]:
            rows.pop()
        return rows


def printed(rows: Sequence[str], width: int, height: int = 24) -> Terminal:
    """Return a new terminal on which only *rows* were printed."""
    terminal = Terminal(width, height)
    terminal.write("".join(f"{row}\r\n" for row in rows))
    return terminal
