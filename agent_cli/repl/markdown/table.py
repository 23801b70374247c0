"""Tables: cells in columns as wide as needed, narrower or stacked if necessary."""

import copy
import re
from collections.abc import Sequence
from typing import Final, Literal, Self, TypeAlias

from agent_cli.repl.markdown.inline import parse_inline
from agent_cli.repl.markdown.page import Piece, Prefix
from agent_cli.repl.markdown.styles import Spans, Theme, cells, cut, plain, wrapped

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


Alignment: TypeAlias = Literal["left", "right", "center"]


def alignments(delimiters: str) -> list[Alignment]:
    """Return the alignment of each column from the delimiter row."""
    found: list[Alignment] = []
    for cell in split_cells(delimiters):
        if cell.endswith(":"):
            found.append("center" if cell.startswith(":") else "right")
        else:
            found.append("left")
    return found


Row: TypeAlias = list[Spans]  # one cell per column


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


_COLUMN_CELLS_MIN: Final = 6
_GAP_CELLS: Final = 3
# Longer headings are shortened where they are repeated before each cell.
_LABEL_CHARS_MAX: Final = 20


class Grid:
    """Columns as wide as the widest measured cell, or narrower if necessary."""

    def __init__(
        self, prefix: Prefix, theme: Theme, head: Row, columns: Sequence[Alignment]
    ) -> None:
        self._prefix = prefix
        self._theme = theme
        self._head = head
        self._columns = columns
        self._natural = _sizes(head)

    def measure(self, row: Row) -> None:
        """Make the columns wide enough for *row*."""
        self._natural = [max(pair) for pair in zip(self._natural, _sizes(row), strict=True)]

    def _widths(self, width: int) -> list[int] | None:
        """Return the width of each column, or None if they do not fit side by side."""
        if self._theme.spoken:
            return None
        room = width - self._prefix.cells(width) - _GAP_CELLS * (len(self._natural) - 1)
        if sum(self._natural) <= room:
            return self._natural
        fitted = _fitted(self._natural, room)
        sizes = zip(fitted, self._natural, strict=True)
        fits = all(size >= min(natural, _COLUMN_CELLS_MIN) for size, natural in sizes)
        return fitted if fits else None

    def drawn_head(self, width: int, *, has_rows: bool) -> list[Spans]:
        """Return the rows of the header; none if it is repeated before each cell."""
        widths = self._widths(width)
        if widths is None:
            is_shown_whole = has_rows and max(map(len, map(plain, self._head))) <= _LABEL_CHARS_MAX
            return [] if is_shown_whole else self._stacked_head(width)
        line = f"{self._theme.rule}{self._theme.crossing}{self._theme.rule}"
        rule = line.join(self._theme.rule * size for size in widths)
        return [
            *self._side_by_side(self._head, widths, width),
            self._prefix.before([(rule, self._theme.faint)], width),
        ]

    def drawn(self, rows: Sequence[Row], width: int) -> list[Spans]:
        """Return *rows*, each as one or more lines."""
        widths = self._widths(width)
        if widths is None:
            return [line for row in rows for line in self._stacked(row, width)]
        return [line for row in rows for line in self._side_by_side(row, widths, width)]

    def _side_by_side(self, row: Row, widths: Sequence[int], width: int) -> list[Spans]:
        columns = [
            cut(cell, wrapped(plain(cell), size, breaks_words=True))
            for cell, size in zip(row, widths, strict=True)
        ]
        drawn: list[list[tuple[str, str]]] = []
        for number in range(max(len(column) for column in columns)):
            line: Spans = []
            for index, column in enumerate(columns):
                cell = column[number] if number < len(column) else []
                line += [(f" {self._theme.column_bar} ", self._theme.faint)] if index else []
                line += _aligned(cell, widths[index], self._columns[index])
            drawn.append(self._prefix.before(line, width))
        return drawn

    def _stacked(self, row: Row, width: int) -> list[Spans]:
        """Return a row as lines "header: cell", followed by a separator."""
        room = width - self._prefix.cells(width)
        lines: list[Spans] = []
        for head, cell in zip(self._head, row, strict=True):
            if plain(cell):
                label = cut(head, [(0, _LABEL_CHARS_MAX)])[0]
                line: Spans = [*label, (": ", self._theme.table_head), *cell]
                lines += cut(line, wrapped(plain(line), room))
        lines.append([(self._theme.rule * 3, self._theme.faint)])
        return [self._prefix.before(line, width) for line in lines]

    def _stacked_head(self, width: int) -> list[Spans]:
        room = width - self._prefix.cells(width)
        return [
            self._prefix.before(line, width)
            for head in self._head
            for line in cut(head, wrapped(plain(head), room))
        ]


def _sizes(row: Row) -> list[int]:
    return [cells(plain(cell)) for cell in row]


def _fitted(natural: Sequence[int], room: int) -> list[int]:
    """Shrink the widest of *natural* equally until all fit into *room*."""
    fitted = [0] * len(natural)
    left = room
    for rank, index in enumerate(sorted(range(len(natural)), key=lambda at: natural[at])):
        fitted[index] = max(min(natural[index], left // (len(natural) - rank)), 1)
        left -= fitted[index]
    return fitted


def _aligned(cell: Spans, width: int, alignment: Alignment) -> Spans:
    missing = max(width - cells(plain(cell).rstrip(" ")), 0)
    left = {"left": 0, "right": missing, "center": missing // 2}[alignment]
    return [(" " * left, ""), *cell, (" " * (missing - left), "")]
