"""Messages waiting to be sent: in order, merged while a slow reader makes them wait."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from agent_cli.acp.framing import encode
from agent_cli.contracts.timeline import Json

_CLOSE_LIMIT_S: Final = 1.0
_CHUNKS: Final = frozenset({"agent_message_chunk", "agent_thought_chunk"})
_BATCH_BYTES: Final = 256 * 1024
_PIECE_CHARS_MAX: Final = 16 * 1024


class WireOutbox:
    """Sends messages one after the other.

    A model may write faster than an editor reads. Waiting pieces of one text become one piece, and
    an update of a tool call's content replaces the one before it, so that the queue grows with the
    amount shown, not with the number of changes.
    """

    def __init__(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        self._write = write
        self._waiting: deque[dict[str, Json]] = deque()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._is_closed = False

    def put(self, message: dict[str, Json]) -> None:
        """Send *message* after those before it."""
        if self._is_closed:
            return
        if not (self._waiting and _merged(self._waiting[-1], message)):
            self._waiting.append(message)
        self._idle.clear()
        self._wake.set()

    async def run(self) -> None:
        """Write until `close`.

        Raises:
            OSError: The reader is gone.
        """
        try:
            while not (self._is_closed and not self._waiting):
                await self._wake.wait()
                self._wake.clear()
                while self._waiting:
                    await self._write(self._batch())
                self._idle.set()
        finally:
            self._is_closed = True
            self._waiting.clear()
            self._idle.set()

    async def flushed(self) -> None:
        """Wait until nothing waits to be written."""
        await self._idle.wait()

    async def close(self) -> None:
        """Write the waiting messages within a short limit, then refuse more."""
        self._is_closed = True
        self._wake.set()
        try:
            async with asyncio.timeout(_CLOSE_LIMIT_S):
                await self._idle.wait()
        except TimeoutError:
            self._waiting.clear()

    def _batch(self) -> bytes:
        batch = bytearray()
        while self._waiting and len(batch) < _BATCH_BYTES:
            batch += encode(self._waiting.popleft())
        return bytes(batch)


def _merged(before: dict[str, Json], message: dict[str, Json]) -> bool:
    """Merge *message* into *before*, the message just before it, if that loses nothing."""
    match before, message:
        case (
            {"method": "session/update", "params": {"sessionId": one, "update": dict(last)}},
            {"method": "session/update", "params": {"sessionId": other, "update": dict(next)}},
        ) if one == other:
            return _is_joined(last, next)
        case _:
            pass
    return False


def _is_joined(last: dict[str, Json], next: dict[str, Json]) -> bool:
    kind = next.get("sessionUpdate")
    if kind != last.get("sessionUpdate"):
        return False
    if kind == "tool_call_update" and next.get("toolCallId") == last.get("toolCallId"):
        last.update(next)
        return True
    if kind not in _CHUNKS or next.get("messageId") != last.get("messageId"):
        return False
    match last["content"], next["content"]:
        case dict(begun), dict(more) if begun["type"] == more["type"] == "text":
            text = str(begun["text"])
            if len(text) < _PIECE_CHARS_MAX:  # each merge copies it
                begun["text"] = text + str(more["text"])
                return True
        case _:
            pass
    return False
