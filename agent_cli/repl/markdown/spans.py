"""Runs of text with one style each, and what becomes of them on a terminal."""

import re
from collections.abc import Iterable
from typing import Final, TypeAlias

Span: TypeAlias = tuple[str, str]  # text; SGR parameters, "" for none
Spans: TypeAlias = list[Span]

# Underline, reverse and strike-through show on a blank too; any other style may run on over it.
_SHOWS_ON_BLANKS: Final = re.compile(r"(?:^|;)[479](?:;|$)")


def plain(spans: Iterable[Span]) -> str:
    """Return the text alone."""
    return "".join(text for text, _ in spans)


def join_styles(first: str, second: str) -> str:
    """Return the parameters that set both styles."""
    return f"{first};{second}" if first and second else first or second


def painted(spans: Spans) -> str:
    """Return a row for the terminal: styles set and reset, nothing invisible at the end."""
    parts: list[str] = []
    current = ""
    for text, style in _without_trailing_blanks(spans):
        if style != current and not (text.isspace() and not _SHOWS_ON_BLANKS.search(current)):
            parts.append(f"\x1b[0;{style}m" if current and style else f"\x1b[{style}m")
            current = style
        parts.append(text)
    if current:
        parts.append("\x1b[m")
    return "".join(parts)


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
