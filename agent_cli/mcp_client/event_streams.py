"""Mend the event streams of servers: the SDK accepts no fault in them."""

import codecs
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import chain
from typing import Final

import httpx2
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError, RequestId

from agent_cli.mcp_client.mended_messages import parsed, replacement_key
from agent_cli.mcp_client.reasons import TOO_LONG
from agent_cli.system.json_text import mend_surrogates

EVENT_BYTES_MAX: Final = 32 * 1024 * 1024
_TOO_LONG: Final = ErrorData(
    code=TOO_LONG, message=f"more than {EVENT_BYTES_MAX // 1024 // 1024} MB"
)
_CHECKED_BYTES_MAX: Final = 1024 * 1024
"""Limits the events whose messages are read here; the SDK reads them once more."""


class MendedStream(httpx2.AsyncByteStream):
    """The bytes of an event stream, mended."""

    def __init__(self, inner: httpx2.AsyncByteStream, asked: RequestId | None) -> None:
        """Mend *inner*; any answer in it belongs to the request *asked*, if that is known."""
        self._inner = inner
        self._asked = asked

    async def __aiter__(self) -> AsyncIterator[bytes]:
        events = _Events(self._asked)
        async for chunk in self._inner:
            if mended := events.feed(chunk):
                yield mended
            if events.bytes_held > EVENT_BYTES_MAX:
                answer = JSONRPCError(jsonrpc="2.0", id=self._asked, error=_TOO_LONG)
                yield b"\n\ndata: " + answer.model_dump_json().encode() + b"\n\n"
                return

    async def aclose(self) -> None:
        """Close the stream."""
        await self._inner.aclose()


class _Events:
    """Rewrites events: each message gets one of its own; other data, such as `ping`, is left out.

    A message counts once it is whole: some servers send no blank line behind it, and leave the
    stream open. In the answer to a request it counts in an event of any name. Of notifications that
    replace each other only the last that came with a chunk is left.

    Attributes:
        bytes_held: The size of the event that has not ended.
    """

    def __init__(self, asked: RequestId | None) -> None:
        self.bytes_held = 0
        self._asked = asked
        self._line = bytearray()
        self._fields: list[bytes] = []
        self._is_after_cr = False
        self._data: list[bytes] = []
        self._mended: dict[object, bytes] = {}

    def feed(self, chunk: bytes) -> bytes:
        """Return the events that *chunk* completes."""
        if self._is_after_cr:
            chunk = chunk.removeprefix(b"\n")
        self._is_after_cr = chunk.endswith(b"\r")
        chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            self._take(end)
            self._end_line()
        self._take(rest)
        if self._is_whole():
            self._end_line()
            self._end_event()
        events, self._mended = self._mended, {}
        return b"".join(events.values())

    def _take(self, part: bytes) -> None:
        self._line += part
        self.bytes_held += len(part)

    def _end_line(self) -> None:
        line = bytes(self._line).removeprefix(codecs.BOM_UTF8)
        self._line.clear()
        if not line:
            self._end_event()
            return
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
        elif name and not (name == b"event" and self._asked is not None):  # a comment has none
            self._fields.append(line)

    def _end_event(self) -> None:
        fields, data = self._fields, self._data
        is_checked = self._has_messages() and self.bytes_held <= _CHECKED_BYTES_MAX
        self._fields, self._data, self.bytes_held = [], [], 0
        messages = self._messages(data) if is_checked else [("", [*map(mend_surrogates, data)])]
        for key, lines in messages:
            if event := [*fields, *(b"data: " + line for line in lines)]:
                self._mended.pop(key, None)
                self._mended[key or object()] = b"\n".join([*event, b"\n"])
            fields = []

    def _has_messages(self) -> bool:
        kinds = [field.partition(b":")[2] for field in self._fields if field.startswith(b"event:")]
        return not kinds or kinds[-1].strip() in (b"", b"message")

    def _messages(self, data: list[bytes]) -> list[tuple[str, list[bytes]]]:
        """Return the key and lines of each message in *data*; no lines if there is none."""
        found: list[tuple[str, list[bytes]]] = []
        for item in chain.from_iterable(parsed(each, asked=self._asked) for each in _texts(data)):
            with suppress(ValueError):  # nested too deeply
                if isinstance(item, SessionMessage):
                    message = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                    found.append((replacement_key(item), [message.encode()]))
        return found or [("", [])]

    def _is_whole(self) -> bool:
        """Return whether the event that has not ended holds whole messages."""
        if self.bytes_held > _CHECKED_BYTES_MAX or not self._has_messages():
            return False
        begun = bytes(self._line).removeprefix(codecs.BOM_UTF8)
        if begun and not begun.startswith(b"data:"):
            return False
        data = [*self._data, begun.removeprefix(b"data:")]
        last = next((line for line in reversed(data) if line.strip()), b"").rstrip()
        return last.endswith((b"}", b"]")) and all(map(_is_json, _texts(data)))


def _texts(data: list[bytes]) -> list[bytes]:
    """Return the texts in the *data* lines of an event: each line if all are JSON, else the whole.

    Without blank lines behind them, several messages are one event.
    """
    lines = [line for line in data if line.strip()]
    return lines if all(map(_is_json, lines)) else [b"\n".join(data)]


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
