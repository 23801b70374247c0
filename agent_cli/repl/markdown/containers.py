"""Quotes and list items: the prefix with which a line continues them."""

import re
from collections.abc import Sequence
from typing import Final, TypeAlias

from agent_cli.repl.markdown.leaf import Prefix
from agent_cli.repl.markdown.spans import Spans
from agent_cli.repl.markdown.theme import Theme
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
