"""Cut text into lines and pieces, independent of the deltas; the blocks that take pieces.

All later stages see pieces only, so that the rendering of an answer cannot depend on how it
arrived.
"""

from collections.abc import Iterator
from typing import Final, Protocol, Self

from agent_cli.repl.markdown.styles import Spans, plain
from agent_cli.system.records import dataclass

PIECE_CHARS: Final = 1024
PROSE_CHARS: Final = 128
"""The length of a piece of prose: with longer ones, the beginning of a paragraph would be missing
from the tail until the paragraph ends."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A line without its newline, or a part of a long line."""

    text: str
    starts_line: bool = True
    ends_line: bool = True

    def with_text(self, text: str) -> Self:
        """Return the piece with another text: without the prefix of a quote or an item."""
        return self if text == self.text else type(self)(text, self.starts_line, self.ends_line)


class PieceCutter:
    """Holds the text that is not a whole piece yet: at most `PIECE_CHARS`.

    A piece of prose is shorter. A line with a bar may be a row of a table, and one without letters
    and digits a rule, which are only known by their ends.
    """

    def __init__(self) -> None:
        self._held = ""
        self._starts_line = True

    def feed(self, text: str) -> Iterator[Piece]:
        """Yield the pieces that *text* completes."""
        first, *others = text.split("\n")
        yield from self._more(first)
        for line in others:
            yield self._end_line()
            yield from self._more(line)

    def finish(self) -> Iterator[Piece]:
        """Yield the rest: the last line, if it has no newline."""
        if self._held or not self._starts_line:
            yield self._end_line()

    def pending(self) -> Piece | None:
        """Return the held text; a line that has not yielded a piece counts as complete."""
        if not self._held:
            return None
        return Piece(self._held, self._starts_line, ends_line=self._starts_line)

    def _more(self, text: str) -> Iterator[Piece]:
        whole = self._held + text
        start = 0
        while len(whole) - start > PROSE_CHARS:
            end = start + PROSE_CHARS
            if self._starts_line and not _is_prose(whole[start:end]):
                end = start + PIECE_CHARS
                if len(whole) <= end:
                    break
            yield Piece(whole[start:end], self._starts_line, ends_line=False)
            self._starts_line = False
            start = end
        self._held = whole[start:]

    def _end_line(self) -> Piece:
        piece = Piece(self._held, self._starts_line)
        self._held, self._starts_line = "", True
        return piece


def _is_prose(text: str) -> bool:
    return "|" not in text and any(map(str.isalnum, text))


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
