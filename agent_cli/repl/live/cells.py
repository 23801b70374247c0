"""The width of painted rows; uses the standard library and prompt_toolkit only."""

import re
from functools import lru_cache
from typing import Final

from prompt_toolkit.utils import get_cwidth

_ESCAPE: Final = re.compile(r"(\x1b\[[0-9;]*m|\x1b\]8;[^\x1b]*\x1b\\)")


@lru_cache(maxsize=256)  # of one row, several times in each frame that shows it
def row_width(row: str) -> int:
    """Return the number of cells a row with colours takes."""
    text = _ESCAPE.sub("", row)
    return len(text) if text.isascii() else sum(max(get_cwidth(char), 0) for char in text)


def rows_taken(width: int, columns: int) -> int:
    """Return how many rows a line of *width* cells takes on a terminal that wraps."""
    return max(1, -(-width // max(columns, 1)))


def shortened(text: str, cells_max: int) -> str:
    """Return *text*, which has no escapes, cut to *cells_max* cells."""
    if row_width(text) <= cells_max:
        return text
    return f"{fitting(text, cells_max - 1)}…" if cells_max > 0 else ""


def fitting(text: str, cells_max: int) -> str:
    """Return the longest prefix of *text*, which has no escapes, of at most *cells_max* cells."""
    used = 0
    for at, char in enumerate(text):
        used += max(get_cwidth(char), 0)
        if used > cells_max:
            return text[:at]
    return text


def cut(row: str, columns: int) -> str:
    """Return *row*, which may have colours, cut to *columns* cells; all its escapes stay."""
    if row_width(row) <= columns:
        return row
    parts: list[str] = []
    room = columns - 1
    for at, part in enumerate(_ESCAPE.split(row)):
        if at % 2:  # an escape
            parts.append(part)
        elif (width := row_width(part)) <= room:
            parts.append(part)
            room -= width
        elif room >= 0:
            parts.append(shortened(part, room + 1))
            room = -1
    return "".join(parts)
