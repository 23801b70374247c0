"""Code: a row per line, as it is: not indented, not padded, not wrapped, so that it can be copied.

What is wider than the terminal is wrapped by the terminal.
"""

import copy
from dataclasses import dataclass
from typing import Final, Self

from agent_cli.repl.markdown.cells import cells
from agent_cli.repl.markdown.highlight import Highlighter
from agent_cli.repl.markdown.leaf import Prefix
from agent_cli.repl.markdown.pieces import PIECE_CHARS, Piece
from agent_cli.repl.markdown.spans import Spans

_TAB_CELLS: Final = 4
# A longer line is finished in parts, so that memory stays bounded.
_LINE_PIECES_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class Fence:
    """What opened a block of code."""

    character: str
    count: int

    def is_closed_by(self, line: str) -> bool:
        """Whether *line* is the other end."""
        mark = line.strip(" \t")
        return len(mark) >= self.count and mark.strip(self.character) == ""


class Code:
    """Lines of one block of code; `fence` is None where indentation makes the block."""

    def __init__(
        self, prefix: Prefix, highlighter: Highlighter | None, fence: Fence | None
    ) -> None:
        self.fence = fence
        self._prefix = prefix
        self._highlighter = highlighter
        self._line: list[str] = []
        self._blank_lines = 0

    def add(self, piece: Piece, width: int) -> list[Spans]:
        """Take a piece of a line; a whole line is a row."""
        self._line.append(piece.text)
        if not piece.ends_line and len(self._line) < _LINE_PIECES_MAX:
            return []
        row = self._row("".join(self._line), width)
        self._line = []
        if self.fence is None and not row[len(self._prefix.rest) :]:
            self._blank_lines += 1
            return []
        blank = [self._row("", width) for _ in range(self._blank_lines)]
        self._blank_lines = 0
        return [*blank, row]

    def close(self, width: int, *, tail_rows: int | None = None) -> list[Spans]:
        """Return the line that has not ended; blank lines at the end of indented code are none."""
        if not self._line:
            return []
        line = "".join(self._line)
        if tail_rows is not None and len(line) > tail_rows * width:
            return [self._prefix.before([(_end_of(line, width, tail_rows), "")], width)]
        return [self._row(line, width)]

    def ends_blank(self) -> bool:
        """Whether blank lines followed indented code: they belong to what comes next."""
        return self._blank_lines > 0

    def copy(self) -> Self:
        """Return the same block once more."""
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
    """Return the end of *line* that fills at most so many rows of the terminal.

    It moves on by half a tail at once: moved on with each character it would be painted anew.
    """
    step = max(rows // 2, 1) * width
    start = -(-(len(line) - rows * width) // step) * step
    # A combining mark at the start of a row would be put on the end of the row above.
    while start < len(line) and cells(line[start]) == 0:
        start += 1
    return line[start:]
