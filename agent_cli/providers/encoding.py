"""Encode a request as JSON in UTF-8, mended where a value has no form in it; pure.

One such value in the history, or in a tool of an MCP server, would make every request fail.
"""

import json
import math
from collections.abc import Mapping

from agent_cli.contracts.timeline import Json


def encoded(body: Mapping[str, Json]) -> bytes:
    """Return *body* as the body of a request."""
    try:
        return _dumped(body).encode()
    except ValueError:  # UnicodeEncodeError among them
        return _dumped(encodable(dict(body))).encode()


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
