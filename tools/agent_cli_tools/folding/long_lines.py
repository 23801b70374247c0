"""Shorten what makes lines long and says little: the times of a build server, and data; pure."""

import re
from collections.abc import Sequence
from typing import Final

from agent_cli_tools.folding.trouble import is_trouble

_STAMPED_MIN: Final = 20
_DATA_CHARS_MIN: Final = 400
_DATA_CHARS_KEPT: Final = 60

# The clock of a build server, not of a program: fractions of a second, and the time zone.
_STAMP: Final = re.compile(
    r"\[?(?P<minute>\d{4}-\d\d-\d\dT\d\d:\d\d):\d\d\.\d{3,9}Z\]?(?: +|$)|"
    r"(?P<seconds>\[\d\d:\d\d:\d\d\]) "
)
_DATA: Final = re.compile(rf"[A-Za-z0-9+/=_-]{{{_DATA_CHARS_MIN},}}")


def without_times(lines: Sequence[str]) -> tuple[list[str], int]:
    """Return *lines* without a build server's times, but those of trouble and of each minute."""
    found = [_STAMP.match(line) for line in lines]
    stamped = sum(1 for match in found if match)
    if stamped < _STAMPED_MIN or stamped < len(lines) // 2:
        return [*lines], 0
    gone, minute = 0, ""
    result: list[str] = []
    for line, match in zip(lines, found, strict=True):
        if not match or is_trouble(line):
            result.append(line)
            continue
        now = match["minute"] or match["seconds"][:6]
        result.append(line if now != minute else line[match.end() :])
        gone += now == minute
        minute = now
    return result, gone


def without_middle_of_data(lines: Sequence[str]) -> tuple[list[str], int]:
    """Return *lines* with the two ends of long data (base64, hexadecimal), and how much went."""
    result = [_DATA.sub(_ends, line) if len(line) >= _DATA_CHARS_MIN else line for line in lines]
    return result, sum(map(len, lines)) - sum(map(len, result))


def _ends(data: re.Match[str]) -> str:
    text = data[0]
    # A rule, a number, or a path of words is none.
    if not (re.search(r"\d", text) and re.search(r"[A-Za-z]", text)) or text.count("/") > (
        len(text) / 16
    ):
        return text
    left = len(text) - 2 * _DATA_CHARS_KEPT
    return f"{text[:_DATA_CHARS_KEPT]}[… {left:,} characters …]{text[-_DATA_CHARS_KEPT:]}"
