"""Code blocks: one row per line, not indented, padded or wrapped, so that code can be copied.

The terminal wraps wider lines.
"""

import copy
from typing import Final, Self

from agent_cli.repl.markdown.cells import cells
from agent_cli.repl.markdown.highlight import Highlighter
from agent_cli.repl.markdown.leaf import Prefix
from agent_cli.repl.markdown.pieces import PIECE_CHARS, Piece
from agent_cli.repl.markdown.spans import Spans
from agent_cli.system.records import dataclass

_TAB_CELLS: Final = 4
# Longer lines are finished in parts, so that memory stays bounded.
_LINE_CHARS_MAX: Final = 64 * PIECE_CHARS


@dataclass(frozen=True, slots=True)
class Fence:
    """The opening fence of a code block."""

    character: str
    count: int

    def is_closed_by(self, line: str) -> bool:
        """Return whether *line* is the closing fence."""
        mark = line.strip(" \t")
        return len(mark) >= self.count and mark.strip(self.character) == ""


class Code:
    """The lines of one code block; `fence` is None for an indented block."""

    def __init__(
        self, prefix: Prefix, highlighter: Highlighter | None, fence: Fence | None
    ) -> None:
        self.fence = fence
        self._prefix = prefix
        self._highlighter = highlighter
        self._line: list[str] = []
        self._line_chars = 0
        self._blank_lines = 0

    def add(self, piece: Piece, width: int) -> list[Spans]:
        """Add a piece of a line; a complete line is a row."""
        self._line.append(piece.text)
        self._line_chars += len(piece.text)
        if not piece.ends_line and self._line_chars < _LINE_CHARS_MAX:
            return []
        row = self._row("".join(self._line), width)
        self._line, self._line_chars = [], 0
        if self.fence is None and not row[len(self._prefix.rest) :]:
            self._blank_lines += 1
            return []
        blank = [self._row("", width) for _ in range(self._blank_lines)]
        self._blank_lines = 0
        return [*blank, row]

    def close(self, width: int, *, tail_rows: int | None = None) -> list[Spans]:
        """Return the incomplete line; blank lines at the end of indented code are dropped."""
        if not self._line:
            return []
        line = "".join(self._line)
        if tail_rows is not None and len(line) > tail_rows * width:
            return [self._prefix.before([(_end_of(line, width, tail_rows), "")], width)]
        return [self._row(line, width)]

    def ends_blank(self) -> bool:
        """Whether blank lines followed indented code; they belong to the next block."""
        return self._blank_lines > 0

    def copy(self) -> Self:
        """Return a copy of the block."""
        other = copy.copy(self)
        other._line = list(self._line)
        other._highlighter = self._highlighter.copy() if self._highlighter else None
        return other

    def _row(self, line: str, width: int) -> Spans:
        text = line.expandtabs(_TAB_CELLS)
        if self._highlighter and len(text) <= PIECE_CHARS:
            spans = self._highlighter.line(text)
        else:
            spans = [(text, "")] if text.strip() else []
        return self._prefix.before(spans, width)


def _end_of(line: str, width: int, rows: int) -> str:
    """Return the end of *line* that fits in the tail's rows.

    It advances by half a tail at a time; advancing with each character would repaint it all.
    """
    step = max(rows // 2, 1) * width
    start = -(-(len(line) - rows * width) // step) * step
    # A combining mark at the start of a row would combine with the end of the row above.
    while start < len(line) and cells(line[start]) == 0:
        start += 1
    return line[start:]
