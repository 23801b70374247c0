"""The open containers of the text, quotes and list items, and its finished rows."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Self, TypeAlias

from agent_cli.repl.markdown.pieces import Prefix
from agent_cli.repl.markdown.styles import Spans, Theme
from agent_cli.system.records import dataclass

_LIST_MARK: Final = re.compile(r"(?P<mark>[-+*]|(?P<number>\d{1,9})[.)])(?P<gap> +|$)")


@dataclass(frozen=True, slots=True)
class Quote:
    """A block quote."""


@dataclass(slots=True)
class Item:
    """An item of a list. Its mark is shown once, before its first row.

    `column` is the position of the mark, `indent` that of the item's text, both relative to the
    enclosing container.
    """

    mark: str
    column: int
    indent: int
    is_shown: bool = False


Container: TypeAlias = Quote | Item


def indent_of(text: str) -> int:
    """Return the number of blanks at the start."""
    return len(text) - len(text.lstrip(" "))


def list_mark(text: str) -> re.Match[str] | None:
    """Match the mark of a list item at the very start of *text*."""
    return _LIST_MARK.match(text)


def inside(container: Container, text: str, *, of_code: bool) -> str | None:
    """Return *text* without the prefix of *container*, or None if it is not inside it.

    Args:
        of_code: The container has an open code block, whose lines need no indentation here. Models
            omit it, and by the specification the closing fence would then open another block.
    """
    indent = indent_of(text)
    if isinstance(container, Quote):
        return text[indent + 1 :].removeprefix(" ") if text[indent:].startswith(">") else None
    if indent >= container.indent or of_code:
        return text[min(indent, container.indent) :]
    # Two blanks are enough for a nested list, whatever the width of the outer mark.
    if indent >= container.column + 2 and list_mark(text[indent:]):
        return text[indent:]
    return None


def opened(text: str, *, interrupts: bool) -> tuple[Container, str] | None:
    """Return the container that *text* opens, and the rest of the text.

    Args:
        interrupts: *text* follows a line of a paragraph, so only an unambiguous list counts.
    """
    column = indent_of(text)
    rest = text[column:]
    if column >= 4:
        return None
    if rest.startswith(">"):
        return Quote(), rest[1:].removeprefix(" ")
    match = list_mark(rest)
    if match is None:
        return None
    after = rest[match.end() :]
    if interrupts and (not after or match["number"] not in (None, "1")):
        return None
    # Many blanks after the mark: one ends it, the others indent code.
    gap = len(match["gap"]) if after and len(match["gap"]) <= 4 else 1
    item = Item(match["mark"], column, column + len(match["mark"]) + gap)
    return item, rest[len(match["mark"]) + gap :]


def prefix(containers: Sequence[Container], theme: Theme) -> Prefix:
    """Return the prefix of the rows of a block inside *containers*."""
    first: Spans = []
    rest: Spans = []
    for container in containers:
        if isinstance(container, Quote):
            bar = [(f"{theme.quote_bar} ", theme.faint)]
            first, rest = first + bar, rest + bar
            continue
        mark = theme.bullet if container.mark in "-+*" else container.mark
        blanks = [(" " * (len(mark) + 1), "")]
        shown = blanks if container.is_shown else [(f"{mark} ", theme.marker)]
        first, rest = first + shown, rest + blanks
    return Prefix(first, rest)


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
