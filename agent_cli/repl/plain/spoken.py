"""An answer for a screen reader: whole lines, each once, with words instead of symbols."""

from collections.abc import Iterable
from typing import Final

from agent_cli.repl.markdown import SPOKEN, MarkdownStream
from agent_cli.terminal.sanitize import Filter

# A paragraph is one line, because a listener does not hear where a row ends.
_COLUMNS: Final = 1_000_000


class SpokenAnswer:
    """Text in as it streams; lines out as soon as they are final."""

    def __init__(self) -> None:
        self._filter = Filter()
        self._markdown = MarkdownStream(_COLUMNS, SPOKEN)

    def feed(self, delta: str) -> str:
        """Add *delta* and return the lines it completes, each with its newline."""
        return _lines(self._markdown.feed(self._filter.feed(delta)))

    def finish(self) -> str:
        """Return the rest; the next `feed` begins another answer."""
        self._filter.reset()
        return _lines(self._markdown.finish())


def _lines(rows: Iterable[str]) -> str:
    return "".join(f"{row}\n" for row in rows if row)
