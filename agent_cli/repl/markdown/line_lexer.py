"""The interface of a lexer that takes one line at a time and keeps its state."""

from collections.abc import Iterator
from typing import Protocol, TypeAlias

Token: TypeAlias = tuple[str, str]
"""The name of the token type, such as "Literal.String", and the text."""


class LineLexer(Protocol):
    """Splits the lines of one text into tokens; a copy continues independently."""

    def tokens(self, line: str) -> Iterator[Token]:
        """Return the tokens of the next line."""
        ...

    def copy(self) -> "LineLexer":
        """Return a copy in the same state."""
        ...
