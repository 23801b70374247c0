"""Read JSON text that may be none, and what strict parsers refuse: surrogates, comments, commas.

JavaScript programs cut strings in the middle of an emoji and write half of it as `\\ud83d`.
"""

import json
import re
from typing import Any

from agent_cli.system.shapes import is_object

_ESCAPE = re.compile(
    rb"\\(?:"
    rb"u[dD][89aAbB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a pair: kept
    rb"|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})"
    rb"|.)",
    re.DOTALL,
)
_HIGH_AT_END = re.compile(rb"\\u[dD][89aAbB][0-9a-fA-F]{2}\Z")
_PAIR_BYTES = 12
_HELD_MAX = 65_536


def json_object(text: str | bytes) -> dict[str, Any] | None:
    """Return the JSON object that *text* is, None if it is anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if is_object(value) else None


def mend_surrogates(data: bytes) -> bytes:
    """Return *data*, JSON text, with U+FFFD for each escape of a lone surrogate."""
    if b"\\ud" not in data and b"\\uD" not in data:
        return data
    return _ESCAPE.sub(lambda found: rb"\ufffd" if found["lone"] else found[0], data)


class SurrogateMender:
    """`mend_surrogates` for text that arrives in chunks."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, chunk: bytes) -> bytes:
        """Return the text so far, except the end of an unfinished line that may be half a pair."""
        data = self._held + chunk
        end = _end_of_whole_escapes(data)
        self._held = data[end:]
        return mend_surrogates(data[:end])

    def flush(self) -> bytes:
        """Return the rest."""
        rest, self._held = self._held, b""
        return mend_surrogates(rest)


def _end_of_whole_escapes(data: bytes) -> int:
    # A line is whole: strings hold no raw line break, and the reader may wait for this line.
    begun = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
    at = data.find(b"\\", max(begun, len(data) - _PAIR_BYTES + 1))
    if at < 0:
        return len(data)
    at = _start_of_run(data, at)
    if _HIGH_AT_END.search(data, max(0, at - 6), at):
        at = _start_of_run(data, at - 6)
    # Limit the part held back, which a long run of backslashes would let grow.
    return at if len(data) - at <= _HELD_MAX else len(data)


def _start_of_run(data: bytes, at: int) -> int:
    """Return the start of the backslashes before *at*; escapes must be counted from there."""
    return len(data[:at].rstrip(b"\\"))


# What has no end ends with the text: looked for behind each quote, it would take hours.
_COMMENT = re.compile(r'("(?>(?:[^"\\]|\\.)*)"?)|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_TRAILING_COMMA = re.compile(r'("(?>(?:[^"\\]|\\.)*)"?)|,(?=\s*[}\]])', re.DOTALL)


def load_commented(text: str) -> object:
    """Parse *text*.

    Raises:
        ValueError: It is not JSON without its comments either; places are those of *text*.
    """
    try:
        return json.loads(text)
    except ValueError:
        try:
            return json.loads(_plain(text))
        except ValueError:
            pass
        raise


def _plain(text: str) -> str:
    without = _COMMENT.sub(lambda found: found[1] or " ", text)
    return _TRAILING_COMMA.sub(lambda found: found[1] or "", without)
