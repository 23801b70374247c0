"""A lexer that takes one line at a time and keeps its state in between."""

from collections.abc import Iterator
from typing import Protocol, TypeAlias

Token: TypeAlias = tuple[str, str]
"""The name of its kind, such as "Literal.String", and its text."""


class LineLexer(Protocol):
    """Splits the lines of one text into tokens; a copy goes on from the same state on its own."""

    def tokens(self, line: str) -> Iterator[Token]:
        """Return the tokens of the next line."""
        ...

    def copy(self) -> "LineLexer":
        """Return the same state once more."""
        ...
