"""The Agent Client Protocol over stdin and stdout: the interface for editors (`agent-cli acp`).

The wire protocol is our own implementation of schema 1.19 of protocol version 1;
docs/decisions/acp-wire.md gives the reasons. No other command imports this package. It begins with
JSON-RPC messages as lines of UTF-8, and the errors they carry. Strict parsers read our output: no
NaN, and no unpaired surrogates. Input may hold both; they are replaced here, before any other code
sees them.
"""

import json
import math
from typing import Final

from agent_cli.contracts.timeline import Json
from agent_cli.system.json_text import mend_surrogates
from agent_cli.system.shapes import is_object

LINE_BYTES_MAX: Final = 64 * 1024 * 1024
"""The longest line to read; an image of 5 MB is 7 MB of base64."""


class LineBuffer:
    """Splits a stream of bytes into lines; drops one that is too long, and reports it once."""

    def __init__(self, line_bytes_max: int = LINE_BYTES_MAX) -> None:
        self._line_bytes_max = line_bytes_max
        self._begun = bytearray()
        self._is_dropping = False

    def feed(self, data: bytes) -> list[bytes | None]:
        """Return the lines that end in *data*; None for one that was too long."""
        *ended, rest = data.split(b"\n")
        lines = [self._end(piece) for piece in ended]
        self._grow(rest)
        return lines

    def _end(self, piece: bytes) -> bytes | None:
        self._grow(piece)
        line = None if self._is_dropping else bytes(self._begun)
        self._begun.clear()
        self._is_dropping = False
        return line

    def _grow(self, piece: bytes) -> None:
        if not self._is_dropping:
            self._begun += piece
        if len(self._begun) > self._line_bytes_max:
            self._is_dropping = True
            self._begun.clear()


def decode(line: bytes) -> dict[str, Json]:
    """Return the message in *line*.

    Raises:
        RpcFault: The line is not JSON, or not an object.
    """
    try:
        message = json.loads(mend_surrogates(line).decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise RpcFault(PARSE_ERROR, f"the line is not JSON: {_reason(error)}") from error
    if not is_object(message):
        raise RpcFault(INVALID_REQUEST, "a message is one JSON object on a line of its own")
    return message


def encode(message: dict[str, Json]) -> bytes:
    """Return *message* as a line that every JSON parser reads."""
    try:
        text = json.dumps(message, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:  # JSON has no NaN
        text = json.dumps(_finite(message), ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace") + b"\n"


def _reason(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _finite(value: Json) -> Json:
    """Return *value* with None for each number that JSON cannot express."""
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
# Codes of the protocol itself.
REQUEST_CANCELLED: Final = -32800
AUTH_REQUIRED: Final = -32000
RESOURCE_NOT_FOUND: Final = -32002


class RpcFault(Exception):
    """The `error` of a response, outgoing or incoming.

    Attributes:
        code: One of the codes above, or a code of the other program.
        message: One sentence; editors show it to the user.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    def to_json(self) -> dict[str, Json]:
        """Return the `error` object."""
        return {"code": self.code, "message": self.message}


class ConnectionLost(Exception):
    """The client is gone and cannot answer."""
