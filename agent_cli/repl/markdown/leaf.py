"""The interface of leaf blocks: they take pieces and return finished rows."""

from typing import Protocol, Self

from agent_cli.repl.markdown.pieces import Piece
from agent_cli.repl.markdown.spans import Spans, plain
from agent_cli.system.records import dataclass


@dataclass(frozen=True, slots=True)
class Prefix:
    """The prefix of a block's rows: markers of items and bars of quotes.

    The first row has the marker of a new item, the others have blanks of the same width.
    """

    first: Spans
    rest: Spans

    def cells(self, width: int) -> int:
        """Return its width on a terminal of *width* cells: at most half of that."""
        return min(sum(len(text) for text, _ in self.rest), width // 2)

    def before(self, row: Spans, width: int, *, first: bool = False) -> Spans:
        """Return *row* with its prefix; a deep prefix is shortened to its inner end."""
        spans = self.first if first else self.rest
        if not spans:
            return row
        dropped = len(plain(spans)) - self.cells(width)
        shown: Spans = []
        for text, style in spans:
            shown.append((text[max(dropped, 0) :], style))
            dropped -= len(text)
        return shown + row


class Leaf(Protocol):
    """A block that contains text and no other blocks."""

    def add(self, piece: Piece, width: int) -> list[Spans]:
        """Add the next piece; return the rows it finishes."""
        ...

    def close(self, width: int, *, tail_rows: int | None = None) -> list[Spans]:
        """End the block and return its remaining rows.

        Args:
            tail_rows: Only preview the block: rows before the last *tail_rows* may be left out, and
                open marks are shown as if closed.
        """
        ...

    def copy(self) -> Self:
        """Return a copy that can be closed without closing this block."""
        ...
