"""An answer for a screen reader: whole lines, each once, with words in place of marks and lines."""

from collections.abc import Iterable
from typing import Final

from agent_cli.repl.markdown import SPOKEN, MarkdownStream
from agent_cli.terminal.sanitize import Filter

# A paragraph is one line: whoever listens does not hear where a row ends.
_COLUMNS: Final = 1_000_000


class SpokenAnswer:
    """Text in, as it comes; lines out, as soon as they are certain."""

    def __init__(self) -> None:
        self._filter = Filter()
        self._markdown = MarkdownStream(_COLUMNS, SPOKEN)

    def feed(self, delta: str) -> str:
        """Return the lines that are complete with *delta*, each with its newline."""
        return _lines(self._markdown.feed(self._filter.feed(delta)))

    def finish(self) -> str:
        """Return the rest; what is fed after this is another answer."""
        self._filter.reset()
        return _lines(self._markdown.finish())


def _lines(rows: Iterable[str]) -> str:
    return "".join(f"{row}\n" for row in rows if row)
