"""An answer in markdown on its way to the terminal: finished rows, and a tail that may change."""

import re
from typing import Final

from agent_cli.repl.markdown.cells import cells, folded
from agent_cli.repl.markdown.page import Page
from agent_cli.repl.markdown.pieces import PieceCutter
from agent_cli.repl.markdown.scanner import Scanner
from agent_cli.repl.markdown.spans import Spans, cut, painted, plain
from agent_cli.repl.markdown.theme import Theme

_WIDTH_MIN: Final = 8
# A line of which only this has arrived may become anything: shown at once it would flash as a
# heading, a list or a rule before it is one.
_UNDECIDED: Final = re.compile(r"[-=+*#>`~|: ]*\Z|[ ]*\d{1,9}[.)]?\Z")


class MarkdownStream:
    """Text in, rows out; a finished row is never changed, whatever comes after it.

    The text must be free of control characters other than tabs and newlines. Rows are styled by
    SGR sequences and end with the terminal's own style; rows of code and long words may be wider
    than the terminal, which wraps them. How the text was cut into deltas changes no finished row.
    """

    def __init__(self, width: int, theme: Theme) -> None:
        self._cutter = PieceCutter()
        self._scanner = Scanner(Page(max(width, _WIDTH_MIN), theme))

    def feed(self, text: str) -> list[str]:
        """Take the next delta; return the rows that are finished with it."""
        for piece in self._cutter.feed(text):
            self._scanner.feed(piece)
        return self._taken()

    def finish(self) -> list[str]:
        """End the answer; return its last rows. What is fed after this is a new answer."""
        for piece in self._cutter.finish():
            self._scanner.feed(piece)
        self._scanner.finish()
        rows = self._taken()
        self._scanner = Scanner(Page(self._scanner.page.width, self._scanner.page.theme))
        return rows

    def resize(self, width: int) -> None:
        """Wrap what is not finished to a new width."""
        self._scanner.page.width = max(width, _WIDTH_MIN)

    def tail(self, max_rows: int) -> list[str]:
        """Return the last rows of what is not finished, as it would look if the text ended here.

        No row is wider than the terminal. Nothing is used up: the same text will be finished later.
        """
        if max_rows <= 0:
            return []
        scanner = self._scanner.look_ahead(max_rows)
        pending = self._cutter.pending()
        if pending and (
            scanner.is_in_code or not pending.starts_line or not _UNDECIDED.match(pending.text)
        ):
            scanner.feed(pending)
        scanner.finish()
        rows: list[str] = []
        for row in reversed(scanner.page.rows):
            rows += [painted(part) for part in reversed(_folded(row, scanner.page.width))]
            if len(rows) >= max_rows:
                break
        return rows[:max_rows][::-1]

    def _taken(self) -> list[str]:
        rows, self._scanner.page.rows = self._scanner.page.rows, []
        return [painted(row) for row in rows]


def _folded(row: Spans, width: int) -> list[Spans]:
    """Return the rows a terminal would make of *row*."""
    text = plain(row).rstrip()
    return [row] if cells(text) <= width else cut(row, folded(text, width))
