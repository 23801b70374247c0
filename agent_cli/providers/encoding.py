"""Encode requests as JSON, with values that JSON lacks mended; read arguments and counts; pure.

One such value in the history, or in a tool of an MCP server, would make every request fail.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import compress, count
from operator import is_not, itemgetter
from typing import Generic, TypeVar

from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import INVALID_JSON
from agent_cli.system.records import dataclass


def encoded(body: Mapping[str, Json]) -> bytes:
    """Return *body* as the body of a request."""
    return _encoded(dict(body))


T = TypeVar("T")
Made = TypeVar("Made")

_CONVERSATIONS_MAX = 4
_KEPT_BYTES_MAX = 8_000_000


class Pieces(Generic[T, Made]):
    """Keeps what was made of each message, so that the next request makes only what follows.

    For the last conversations, by the objects: whoever passes the same one again must not have
    changed it in place. Threads may share it.
    """

    def __init__(
        self, make: Callable[[T], Made], *, size: Callable[[Made], int] = lambda _made: 0
    ) -> None:
        """Keep nothing yet; *size* returns the bytes of a piece, for large ones."""
        self._make = make
        self._size = size
        self._kept: tuple[_Sent[Made], ...] = ()

    def of(self, messages: Sequence[T]) -> list[Made]:
        """Return what is made of each of *messages*."""
        kept = self._kept
        found = [(each.in_common(messages), each) for each in kept]
        same, known = max(found, key=itemgetter(0), default=(0, _Sent[Made]((), (), 0)))
        new = [*map(self._make, messages[same:])]
        pieces = [*known.pieces[:same], *new]
        size = known.size + self._size_of(new) - self._size_of(known.pieces[same:])
        others = [each for each in kept if not same or each is not known]
        if size <= _KEPT_BYTES_MAX:
            others.insert(0, _Sent(tuple(messages), pieces, size))
        self._kept = tuple(others[:_CONVERSATIONS_MAX])
        return pieces

    def _size_of(self, pieces: Iterable[Made]) -> int:
        return sum(map(self._size, pieces))


@dataclass(frozen=True, slots=True)
class _Sent(Generic[Made]):
    """The messages of a request, and what was made of each."""

    messages: Sequence[object]
    pieces: Sequence[Made]
    size: int

    def in_common(self, messages: Sequence[object]) -> int:
        """Return how many of *messages*, from the first on, are the same objects."""
        changed = compress(count(), map(is_not, self.messages, messages))
        return next(changed, min(len(self.messages), len(messages)))


class EncodedBodies:
    """Encodes requests as `encoded` does, and keeps the JSON of their messages."""

    def __init__(self) -> None:
        self._pieces = Pieces[Json, bytes](_encoded, size=len)

    def of(self, body: Mapping[str, Json]) -> bytes:
        """Return *body* as the body of a request."""
        return b"{" + b",".join(self._members(body)) + b"}"

    def _members(self, body: Mapping[str, Json]) -> Iterator[bytes]:
        for name, value in body.items():
            if name == "messages" and isinstance(value, list):
                yield b'"messages":[' + b",".join(self._pieces.of(value)) + b"]"
            else:
                yield _encoded({name: value})[1:-1]


def _encoded(value: Json) -> bytes:
    try:
        return _dumped(value).encode()
    except ValueError:  # UnicodeEncodeError among them
        return _dumped(encodable(value)).encode()


def encodable(value: Json) -> Json:
    """Return *value*, for a client that encodes it itself; a copy only if something was mended.

    Each lone surrogate becomes U+FFFD: names of files that are not UTF-8 have them, and so may what
    a tool or a server wrote. An infinite number becomes null.
    """
    match value:
        case str():
            return value if value.isascii() else _mended(value)
        case float():
            return value if math.isfinite(value) else None
        case dict():
            pairs = {str(encodable(name)): encodable(part) for name, part in value.items()}
            same = all(a is b for a, b in zip(pairs.values(), value.values(), strict=False))
            return value if same and pairs.keys() == value.keys() else pairs
        case list():
            parts = [encodable(part) for part in value]
            same = all(a is b for a, b in zip(parts, value, strict=True))
            return value if same else parts
        case _:
            return value


def _mended(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _dumped(body: object) -> str:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


# A model that repeats "[" without end must not break the run or the record, which recurse.
_DEPTH_MAX = 100


def count_in(figures: Mapping[str, Json], name: str) -> int:
    """Return a number of tokens from what a server counted; 0 if it did not count them."""
    value = figures.get(name)
    return max(value, 0) if isinstance(value, int) else 0


def tool_input(written: str) -> Json:
    """Return the arguments; text that is no JSON object is kept for `check_input` to refuse.

    A line break or tab that a model wrote as it is, in a string, can mean nothing else.
    """
    if not written.strip():
        return {}
    try:
        parsed: Json = json.loads(written, parse_constant=_not_json, strict=False)
    except (ValueError, RecursionError):
        return {INVALID_JSON: written}
    return parsed if _is_usable(parsed) else {INVALID_JSON: written}


def whole_input(arguments: Json) -> Json:
    """Return the arguments that came with the start of their block."""
    if not arguments or _is_usable(arguments):
        return arguments or {}
    return tool_input(arguments if isinstance(arguments, str) else json.dumps(arguments))


def _is_usable(arguments: Json) -> bool:
    """Return whether *arguments* are an object that can be recorded and sent."""
    if not isinstance(arguments, dict) or not _is_within(arguments, _DEPTH_MAX):
        return False
    try:
        # A lone surrogate is legal in JSON text but cannot be encoded as UTF-8; 1e999 is infinite.
        json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        return False
    return True


def _is_within(value: Json, depth: int) -> bool:
    match value:
        case dict():
            parts: Iterable[Json] = value.values()
        case list():
            parts = value
        case _:
            return True
    return depth > 0 and all(_is_within(part, depth - 1) for part in parts)


def _not_json(constant: str) -> Json:
    raise ValueError(f"{constant} is not JSON")
