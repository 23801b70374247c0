"""What the kinds of block have in common: they take pieces and give finished rows."""

from dataclasses import dataclass
from typing import Protocol, Self

from agent_cli.repl.markdown.pieces import Piece
from agent_cli.repl.markdown.spans import Spans, plain


@dataclass(frozen=True, slots=True)
class Prefix:
    """What stands before the rows of a block: markers of items and bars of quotes.

    The first row has the marker of a new item, the others blanks of the same width.
    """

    first: Spans
    rest: Spans

    def cells(self, width: int) -> int:
        """Return how many cells it takes on a terminal of *width*: half of it at most."""
        return min(sum(len(text) for text, _ in self.rest), width // 2)

    def before(self, row: Spans, width: int, *, first: bool = False) -> Spans:
        """Return *row* with its prefix; of a deep one the inner end is shown."""
        spans = self.first if first else self.rest
        dropped = len(plain(spans)) - self.cells(width)
        shown: Spans = []
        for text, style in spans:
            shown.append((text[max(dropped, 0) :], style))
            dropped -= len(text)
        return shown + row


class Leaf(Protocol):
    """A block that holds text and no other blocks."""

    def add(self, piece: Piece, width: int) -> list[Spans]:
        """Take the next piece; return the rows that are finished with it."""
        ...

    def close(self, width: int, *, tail_rows: int | None = None) -> list[Spans]:
        """Return the remaining rows; the block has ended.

        Args:
            tail_rows: It has not ended, it is only looked at: rows before the last so many may be
                left out, and what is open at the end is shown as if it were closed.
        """
        ...

    def copy(self) -> Self:
        """Return a block in the same state that can be closed without closing this one."""
        ...
