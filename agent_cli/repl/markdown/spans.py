"""Runs of text with one style each, and what becomes of them on a terminal."""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, TypeAlias
from zlib import crc32

# Text; SGR parameters, "" for none, and behind a blank the address a click on the text opens.
Span: TypeAlias = tuple[str, str]
Spans: TypeAlias = list[Span]

# Underline, reverse and strike-through show on a blank too; any other style may run on over it.
_SHOWS_ON_BLANKS: Final = re.compile(r"(?:^|;)[479](?:;|$)| ")
# What a browser or a mail program opens, in characters that mean the same everywhere.
_LINKED: Final = re.compile(r"(?:https?://|mailto:)[!-~]{1,2000}")


def plain(spans: Iterable[Span]) -> str:
    """Return the text alone."""
    return "".join(text for text, _ in spans)


def join_styles(first: str, second: str) -> str:
    """Return the parameters that set both styles; only the second may have an address."""
    return f"{first};{second}" if first and second else first or second


def linked(style: str, address: str) -> str:
    """Return *style* for a text that shows *address*, with the link; without, if it is unusual."""
    return f"{style} {address}" if _LINKED.fullmatch(address) else style


def painted(spans: Spans) -> str:
    """Return a row for the terminal: styles set and reset, nothing invisible at the end."""
    parts: list[str] = []
    current = ""
    for text, style in _without_trailing_blanks(spans):
        if style != current and not (text.isspace() and not _SHOWS_ON_BLANKS.search(current)):
            parts.append(_change(current, style))
            current = style
        parts.append(text)
    if current:
        parts.append(_change(current, ""))
    return "".join(parts)


@lru_cache(maxsize=512)
def _change(before: str, after: str) -> str:
    """Return the escapes that turn one style into another."""
    old, _, old_address = before.partition(" ")
    new, _, address = after.partition(" ")
    sgr = "" if old == new else f"\x1b[0;{new}m" if old and new else f"\x1b[{new}m"
    return sgr if old_address == address else sgr + _link(address)


def _link(address: str) -> str:
    """Return OSC 8, which begins a link, or ends it; rows of one address light up together."""
    return f"\x1b]8;id={crc32(address.encode()):x};{address}\x1b\\" if address else "\x1b]8;;\x1b\\"


def _without_trailing_blanks(spans: Spans) -> Spans:
    end = len(spans)
    while end and (not spans[end - 1][0] or spans[end - 1][0].isspace()):
        end -= 1
    if end == 0:
        return []
    text, style = spans[end - 1]
    return [*spans[: end - 1], (text.rstrip(), style)]


def split_lines(spans: Spans) -> list[Spans]:
    """Split at the newlines in the text; there is always at least one line."""
    lines: list[Spans] = [[]]
    for text, style in spans:
        first, *others = text.split("\n")
        if first:
            lines[-1].append((first, style))
        lines += [[(other, style)] if other else [] for other in others]
    return lines


def cut(spans: Spans, ranges: Iterable[tuple[int, int]]) -> list[Spans]:
    """Return the spans of each range of characters; ranges ascend and do not overlap."""
    rows: list[Spans] = []
    index = offset = 0
    for start, end in ranges:
        row: Spans = []
        while index < len(spans) and offset < end:
            text, style = spans[index]
            after = offset + len(text)
            if after > start:
                row.append((text[max(start - offset, 0) : end - offset], style))
            if after > end:
                break
            index, offset = index + 1, after
        rows.append(row)
    return rows
