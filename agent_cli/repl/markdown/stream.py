"""Render a streaming Markdown answer as finished rows and a tail that may still change."""

import re
from typing import Final

from agent_cli.repl.markdown.cells import cells, folded
from agent_cli.repl.markdown.page import Page
from agent_cli.repl.markdown.pieces import PieceCutter
from agent_cli.repl.markdown.scanner import Scanner
from agent_cli.repl.markdown.spans import Spans, cut, painted, plain
from agent_cli.repl.markdown.theme import Theme
from agent_cli.terminal.sanitize import clean

_WIDTH_MIN: Final = 8
# A line with only these characters is ambiguous: shown at once it would briefly appear as a
# heading, a list or a rule.
_UNDECIDED: Final = re.compile(r"[-=+*#>`~|: ]*\Z|[ ]*\d{1,9}[.)]?\Z")


class MarkdownStream:
    """Text in, rows out; a finished row never changes, whatever follows.

    The text must have no control characters except tabs and newlines. Rows are styled by SGR
    sequences and end with the default style; rows of code and long words may be wider than the
    terminal, which wraps them. Finished rows do not depend on how the text was cut into deltas.
    """

    def __init__(self, width: int, theme: Theme) -> None:
        self._cutter = PieceCutter()
        self._scanner = Scanner(Page(max(width, _WIDTH_MIN), theme))

    def feed(self, text: str) -> list[str]:
        """Add the next delta; return the rows it finishes."""
        for piece in self._cutter.feed(text):
            self._scanner.feed(piece)
        return self._taken()

    def finish(self) -> list[str]:
        """End the answer; return its last rows. The next `feed` begins a new answer."""
        for piece in self._cutter.finish():
            self._scanner.feed(piece)
        self._scanner.finish()
        rows = self._taken()
        self._scanner = Scanner(Page(self._scanner.page.width, self._scanner.page.theme))
        return rows

    def resize(self, width: int) -> None:
        """Wrap unfinished text to a new width."""
        self._scanner.page.width = max(width, _WIDTH_MIN)

    def tail(self, max_rows: int) -> list[str]:
        """Return the last rows of the unfinished text as if it ended here.

        No row is wider than the terminal. The state does not change: the text is finished later.
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


def rendered(text: str, width: int, theme: Theme) -> list[str]:
    """Return the rows of a whole *text*; its control characters are removed."""
    page = MarkdownStream(width, theme)
    return [*page.feed(clean(text)), *page.finish()]


def _folded(row: Spans, width: int) -> list[Spans]:
    """Return *row* as a terminal would wrap it."""
    text = plain(row).rstrip()
    return [row] if cells(text) <= width else cut(row, folded(text, width))
