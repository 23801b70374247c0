"""The page of an answer: pieces of text in; open quotes and list items; finished rows out.

The blocks see pieces only, so that the rendering of an answer cannot depend on how it arrived.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, Protocol, Self, TypeAlias

from agent_cli.repl.markdown.styles import Spans, Theme, plain
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


_TASK: Final = re.compile(r"\[(?P<state>[ xX])\](?: +|\Z)")
_LIST_MARK: Final = re.compile(r"(?P<mark>[-+*]|(?P<number>\d{1,9})[.)])(?P<gap> +|$)")


@dataclass(frozen=True, slots=True)
class Quote:
    """A block quote."""


@dataclass(slots=True)
class Item:
    """An item of a list. Its mark is shown once, before its first row.

    `column` is the position of the mark, `indent` that of the item's text, both relative to the
    enclosing container. `is_done` is None unless the item is a task.
    """

    mark: str
    column: int
    indent: int
    is_done: bool | None = None
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
    text = rest[len(match["mark"]) + gap :]
    if task := _TASK.match(text):
        item.is_done = task["state"] != " "
        text = text[task.end() :]
    return item, text


def prefix(containers: Sequence[Container], theme: Theme) -> Prefix:
    """Return the prefix of the rows of a block inside *containers*."""
    first: Spans = []
    rest: Spans = []
    for container in containers:
        if isinstance(container, Quote):
            bar = [(f"{theme.quote_bar} ", theme.faint)]
            first, rest = first + bar, rest + bar
            continue
        mark = _shown_mark(container, theme)
        blanks = [(" " * (len(mark) + 1), "")]
        shown = blanks if container.is_shown else [(f"{mark} ", theme.marker)]
        first, rest = first + shown, rest + blanks
    return Prefix(first, rest)


def _shown_mark(item: Item, theme: Theme) -> str:
    """Return the mark of *item*: its number or a bullet, and the box of a task."""
    is_numbered = item.mark not in "-+*"
    if item.is_done is None:
        return item.mark if is_numbered else theme.bullet
    box = theme.done if item.is_done else theme.to_do
    return f"{item.mark} {box}" if is_numbered else box


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
