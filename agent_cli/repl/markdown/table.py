"""Tables: columns as wide as they need to be, narrower or one under the other where they must."""

import copy
import re
from collections.abc import Sequence
from typing import Final, Literal, Self, TypeAlias

from agent_cli.repl.markdown.cells import cells, wrapped
from agent_cli.repl.markdown.inline import parse_inline
from agent_cli.repl.markdown.leaf import Prefix
from agent_cli.repl.markdown.pieces import Piece
from agent_cli.repl.markdown.spans import Spans, cut, plain
from agent_cli.repl.markdown.theme import Theme

Alignment: TypeAlias = Literal["left", "right", "center"]
_Row: TypeAlias = list[Spans]

# After so many rows or so much text the widths are settled, and each row is finished as it comes.
_MEASURED_ROWS: Final = 64
_MEASURED_CHARS: Final = 16_384
# Of an unfinished row the tail shows so many pieces at most.
_TAIL_PIECES: Final = 4
_COLUMN_CELLS_MIN: Final = 6
_GAP_CELLS: Final = 3
# Of a longer heading only the beginning is repeated before each cell.
_LABEL_CHARS_MAX: Final = 20
_BAR: Final = re.compile(r"(?<!\\)\|")


def split_cells(line: str) -> list[str]:
    r"""Return the cells of a line; `\|` is a bar inside a cell."""
    text = line.strip().removeprefix("|")
    if text.endswith("|") and not text.endswith("\\|"):
        text = text[:-1]
    return [cell.strip().replace("\\|", "|") for cell in _BAR.split(text)]


def alignments(delimiters: str) -> list[Alignment]:
    """Return what the line under the head says about each column."""
    found: list[Alignment] = []
    for cell in split_cells(delimiters):
        if cell.endswith(":"):
            found.append("center" if cell.startswith(":") else "right")
        else:
            found.append("left")
    return found


class Table:
    """Rows whose columns stand under each other; every row has a cell for each column."""

    def __init__(
        self, prefix: Prefix, theme: Theme, head: str, columns: Sequence[Alignment]
    ) -> None:
        self._prefix = prefix
        self._theme = theme
        self._columns = columns
        self._head = self._parsed(head, base=theme.table_head)
        self._rows: list[_Row] = []
        self._natural = [cells(plain(cell)) for cell in self._head]
        self._line: list[str] = []
        self._measured_chars = 0
        self._settled = False

    def add(self, piece: Piece, width: int) -> list[Spans]:
        """Take a piece of a line; a whole line is a row of the table."""
        self._line.append(piece.text)
        if not piece.ends_line:
            return []
        line = "".join(self._line)
        row = self._parsed(line)
        self._line = []
        if self._settled:
            return self._drawn([row], width)
        self._rows.append(row)
        sizes = [cells(plain(cell)) for cell in row]
        self._natural = [max(pair) for pair in zip(self._natural, sizes, strict=True)]
        self._measured_chars += len(line)
        if len(self._rows) < _MEASURED_ROWS and self._measured_chars < _MEASURED_CHARS:
            return []
        drawn = self._drawn_head(width) + self._drawn(self._rows, width)
        self._settled = True
        self._rows = []
        return drawn

    def close(self, width: int, *, tail_rows: int | None = None) -> list[Spans]:
        """Return the rows that are not finished, with the head before them."""
        if self._line and tail_rows is not None:
            del self._line[_TAIL_PIECES:]
        unfinished = self.add(Piece("", starts_line=False), width) if self._line else []
        if self._settled:
            return unfinished
        if tail_rows is not None and len(self._rows) > tail_rows:
            return self._drawn(self._rows[-tail_rows:], width)
        return self._drawn_head(width) + self._drawn(self._rows, width)

    def copy(self) -> Self:
        """Return the same table once more."""
        other = copy.copy(self)
        other._rows, other._line = list(self._rows), list(self._line)
        return other

    def _parsed(self, line: str, *, base: str = "") -> _Row:
        texts = split_cells(line.replace("\t", " "))
        count = len(self._columns)
        # More cells than the head has are not columns, but nothing of them gets lost.
        texts[count - 1 :] = [" | ".join(texts[count - 1 :])]
        texts += [""] * (count - len(texts))
        return [parse_inline(text, self._theme, base=base) for text in texts]

    def _widths(self, width: int) -> list[int] | None:
        """Return the width of each column, or None where they do not fit side by side."""
        room = width - self._prefix.cells(width) - _GAP_CELLS * (len(self._natural) - 1)
        if sum(self._natural) <= room:
            return self._natural
        fitted = _fitted(self._natural, room)
        sizes = zip(fitted, self._natural, strict=True)
        fits = all(size >= min(natural, _COLUMN_CELLS_MIN) for size, natural in sizes)
        return fitted if fits else None

    def _drawn_head(self, width: int) -> list[Spans]:
        widths = self._widths(width)
        if widths is None:
            is_shown_whole = (
                self._rows and max(map(len, map(plain, self._head))) <= _LABEL_CHARS_MAX
            )
            return [] if is_shown_whole else self._stacked_head(width)
        line = f"{self._theme.rule}{self._theme.crossing}{self._theme.rule}"
        rule = line.join(self._theme.rule * size for size in widths)
        return [
            *self._side_by_side(self._head, widths, width),
            self._prefix.before([(rule, self._theme.faint)], width),
        ]

    def _drawn(self, rows: Sequence[_Row], width: int) -> list[Spans]:
        widths = self._widths(width)
        if widths is None:
            return [line for row in rows for line in self._stacked(row, width)]
        return [line for row in rows for line in self._side_by_side(row, widths, width)]

    def _side_by_side(self, row: _Row, widths: Sequence[int], width: int) -> list[Spans]:
        columns = [
            cut(cell, wrapped(plain(cell), size, breaks_words=True))
            for cell, size in zip(row, widths, strict=True)
        ]
        drawn = []
        for number in range(max(len(column) for column in columns)):
            line: Spans = []
            for index, column in enumerate(columns):
                cell = column[number] if number < len(column) else []
                line += [(f" {self._theme.column_bar} ", self._theme.faint)] if index else []
                line += _aligned(cell, widths[index], self._columns[index])
            drawn.append(self._prefix.before(line, width))
        return drawn

    def _stacked(self, row: _Row, width: int) -> list[Spans]:
        """Return a row as lines "head: cell", and a mark after them."""
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


def _fitted(natural: Sequence[int], room: int) -> list[int]:
    """Return *natural* with the widest made as narrow as each other, until all fit into *room*."""
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
