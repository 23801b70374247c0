"""Runs of text with one style each, and their output on a terminal."""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, TypeAlias
from zlib import crc32

# Text; SGR parameters, "" for none, followed by a blank and the URL of a link, if any.
Span: TypeAlias = tuple[str, str]
Spans: TypeAlias = list[Span]

# Underline, reverse and strike-through are visible on a blank; other styles may include it.
_SHOWS_ON_BLANKS: Final = re.compile(r"(?:^|;)[479](?:;|$)| ")
# URLs for a browser or mail program, in unambiguous characters.
_LINKED: Final = re.compile(r"(?:https?://|mailto:)[!-~]{1,2000}")


def plain(spans: Iterable[Span]) -> str:
    """Return the text without styles."""
    return "".join(text for text, _ in spans)


def join_styles(first: str, second: str) -> str:
    """Return the parameters that set both styles; only the second may have a URL."""
    return f"{first};{second}" if first and second else first or second


def linked(style: str, address: str) -> str:
    """Return *style* with a link to *address*; without one if the address is unusual."""
    return f"{style} {address}" if _LINKED.fullmatch(address) else style


def painted(spans: Spans) -> str:
    """Return a row for the terminal, with styles set and reset, without trailing blanks."""
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
    """Return the escape sequences that change one style into another."""
    old, _, old_address = before.partition(" ")
    new, _, address = after.partition(" ")
    sgr = "" if old == new else f"\x1b[0;{new}m" if old and new else f"\x1b[{new}m"
    return sgr if old_address == address else sgr + _link(address)


def _link(address: str) -> str:
    """Return the OSC 8 sequence that begins or ends a link; rows of one URL share an id."""
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
    """Split at newlines; there is always at least one line."""
    if not any("\n" in text for text, _ in spans):
        return [[span for span in spans if span[0]]]
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
