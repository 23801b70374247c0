"""The open containers of the text, and its finished rows."""

from dataclasses import replace
from typing import Self

from agent_cli.repl.markdown.containers import Container, Item, Quote, inside, prefix
from agent_cli.repl.markdown.leaf import Prefix
from agent_cli.repl.markdown.spans import Spans
from agent_cli.repl.markdown.theme import Theme


class Page:
    """Finished `rows`, open `containers` (innermost last), and the pending blank row.

    Blank lines become one blank row before the next row, but not at the start and the end.
    """

    def __init__(self, width: int, theme: Theme) -> None:
        self.width = width
        self.theme = theme
        self.rows: list[Spans] = []
        self.containers: list[Container] = []
        self._gap: int | None = None  # a blank row is pending, inside this number of quotes
        self._is_empty = True

    def next_page(self) -> Self:
        """Return a copy without the rows."""
        other = type(self)(self.width, self.theme)
        other.containers = [
            replace(container) if isinstance(container, Item) else container
            for container in self.containers
        ]
        other._gap, other._is_empty = self._gap, self._is_empty
        return other

    def emit(self, rows: list[Spans]) -> None:
        """Add finished rows."""
        if not rows:
            return
        if self._gap is not None and not self._is_empty:
            quotes = self._quotes()[: self._gap]
            self.rows.append(prefix(quotes, self.theme).before([], self.width))
        self._gap = None
        self._is_empty = False
        self.rows += rows

    def leave_space(self) -> None:
        """Add a blank row before the next row, inside the currently open quotes."""
        self._gap = len(self._quotes())

    def leave_space_unless_beside_mark(self) -> None:
        """Add a blank row before the next row, unless that begins an item."""
        quotes = len(self._quotes())
        if all(isinstance(found, Quote) or found.is_shown for found in self.containers):
            self._gap = quotes if self._gap is None else min(self._gap, quotes)

    def bars(self) -> Prefix:
        """Return the prefix for unindented rows: the bars of quotes only."""
        return prefix(self._quotes(), self.theme)

    def take_prefix(self) -> Prefix:
        """Return the prefix for a new block; its first row shows the marks of new items."""
        found = prefix(self.containers, self.theme)
        for container in self.containers:
            if isinstance(container, Item):
                container.is_shown = True
        return found

    def show_marks(self) -> None:
        """Give the marks of new items a row of their own, because no text follows them."""
        if any(isinstance(found, Item) and not found.is_shown for found in self.containers):
            self.emit([self.take_prefix().before([], self.width, first=True)])

    def close_from(self, number: int) -> None:
        """Close the containers from *number* on."""
        self.show_marks()
        del self.containers[number:]

    def matched(self, text: str) -> tuple[int, str]:
        """Return the number of containers the line continues, and the rest of the line."""
        for number, container in enumerate(self.containers):
            if isinstance(container, Item) and not text.strip():
                continue
            rest = inside(container, text, of_code=False)
            if rest is None:
                return number, text
            text = rest
        return len(self.containers), text

    def quotes_are_open_in(self, matched: int) -> bool:
        """Return whether all open quotes are among the first *matched* containers."""
        return not any(isinstance(found, Quote) for found in self.containers[matched:])

    def code_line(self, text: str) -> str | None:
        """Return the line without its prefix if it is inside open code, else None."""
        for container in self.containers:
            rest = inside(container, text, of_code=True)
            if rest is None:
                return None
            text = rest
        return text

    def _quotes(self) -> list[Quote]:
        return [found for found in self.containers if isinstance(found, Quote)]
