"""Text cut into lines, and long lines into pieces, at places that depend on the text alone.

Everything behind this sees pieces only, so what it makes of an answer cannot depend on how the
answer arrived.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Self

PIECE_CHARS: Final = 1024


@dataclass(frozen=True, slots=True)
class Piece:
    """A line without its newline, or a part of a long one."""

    text: str
    starts_line: bool = True
    ends_line: bool = True

    def with_text(self, text: str) -> Self:
        """Return the piece with another text, as it is inside a quote or an item."""
        return type(self)(text, self.starts_line, self.ends_line)


class PieceCutter:
    """Holds the text of which no whole piece has arrived yet: less than `PIECE_CHARS`."""

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
        """Yield what is left: the last line, if it has no newline."""
        if self._held or not self._starts_line:
            yield self._end_line()

    def pending(self) -> Piece | None:
        """Return what is held; a line of which nothing is taken yet as if it ended here."""
        if not self._held:
            return None
        return Piece(self._held, self._starts_line, ends_line=self._starts_line)

    def _more(self, text: str) -> Iterator[Piece]:
        whole = self._held + text
        start = 0
        while len(whole) - start > PIECE_CHARS:
            end = start + PIECE_CHARS
            yield Piece(whole[start:end], self._starts_line, ends_line=False)
            self._starts_line = False
            start = end
        self._held = whole[start:]

    def _end_line(self) -> Piece:
        piece = Piece(self._held, self._starts_line)
        self._held, self._starts_line = "", True
        return piece
