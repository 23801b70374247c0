"""Tables: columns as wide as needed, narrower or stacked if necessary."""

import copy
import re
from collections.abc import Sequence
from typing import Final, Self

from agent_cli.repl.markdown.grid import Alignment, Grid, Row
from agent_cli.repl.markdown.inline import parse_inline
from agent_cli.repl.markdown.leaf import Prefix
from agent_cli.repl.markdown.pieces import Piece
from agent_cli.repl.markdown.spans import Spans
from agent_cli.repl.markdown.theme import Theme

# After this many rows or characters the widths are fixed, and each row is finished at once.
_MEASURED_ROWS: Final = 64
_MEASURED_CHARS: Final = 16_384
# Maximum number of pieces of an unfinished row in the tail.
_TAIL_PIECES: Final = 4
_BAR: Final = re.compile(r"(?<!\\)\|")


def split_cells(line: str) -> list[str]:
    r"""Return the cells of a line; `\|` is a literal bar."""
    text = line.strip().removeprefix("|")
    if text.endswith("|") and not text.endswith("\\|"):
        text = text[:-1]
    return [cell.strip().replace("\\|", "|") for cell in _BAR.split(text)]


def alignments(delimiters: str) -> list[Alignment]:
    """Return the alignment of each column from the delimiter row."""
    found: list[Alignment] = []
    for cell in split_cells(delimiters):
        if cell.endswith(":"):
            found.append("center" if cell.startswith(":") else "right")
        else:
            found.append("left")
    return found


class MarkdownTable:
    """A table; every row has a cell for each column."""

    def __init__(
        self, prefix: Prefix, theme: Theme, head: str, columns: Sequence[Alignment]
    ) -> None:
        self._theme = theme
        self._count = len(columns)
        self._grid = Grid(prefix, theme, self._parsed(head, base=theme.table_head), columns)
        self._rows: list[Row] = []
        self._line: list[str] = []
        self._measured_chars = 0
        self._settled = False

    def add(self, piece: Piece, width: int) -> list[Spans]:
        """Add a piece of a line; a complete line is a row of the table."""
        self._line.append(piece.text)
        if not piece.ends_line:
            return []
        line = "".join(self._line)
        row = self._parsed(line)
        self._line = []
        if self._settled:
            return self._grid.drawn([row], width)
        self._rows.append(row)
        self._grid.measure(row)
        self._measured_chars += len(line)
        if len(self._rows) < _MEASURED_ROWS and self._measured_chars < _MEASURED_CHARS:
            return []
        drawn = self._drawn(width)
        self._settled = True
        self._rows = []
        return drawn

    def close(self, width: int, *, tail_rows: int | None = None) -> list[Spans]:
        """Return the unfinished rows, with the header before them."""
        if self._line and tail_rows is not None:
            del self._line[_TAIL_PIECES:]
        unfinished = self.add(Piece("", starts_line=False), width) if self._line else []
        if self._settled:
            return unfinished
        if tail_rows is not None and len(self._rows) > tail_rows:
            return self._grid.drawn(self._rows[-tail_rows:], width)
        return self._drawn(width)

    def copy(self) -> Self:
        """Return a copy of the table."""
        other = copy.copy(self)
        other._rows, other._line = list(self._rows), list(self._line)
        other._grid = copy.copy(self._grid)
        return other

    def _drawn(self, width: int) -> list[Spans]:
        head = self._grid.drawn_head(width, has_rows=bool(self._rows))
        return head + self._grid.drawn(self._rows, width)

    def _parsed(self, line: str, *, base: str = "") -> Row:
        texts = split_cells(line.replace("\t", " "))
        count = self._count
        # Cells beyond the header's columns are not columns, but their text is kept.
        texts[count - 1 :] = [" | ".join(texts[count - 1 :])]
        texts += [""] * (count - len(texts))
        return [parse_inline(text, self._theme, base=base) for text in texts]
