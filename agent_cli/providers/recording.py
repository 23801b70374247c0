"""Recordings of replies at the transport: bytes and their timing, one JSON object per line.

    {"type": "response", "status": 200, "headers": {"content-type": "text/event-stream"}}
    {"type": "chunk", "at_s": 0.41, "text": "event: message_start\\n..."}
    {"type": "end"}            or {"type": "broken", "error": "ReadError"}

Requests are not stored, so a recording holds no key; of the response headers only those that the
client uses are. Replies are played in the recorded order. The lines of one that began while others
arrived, as with several agents, have its number among them: `"reply": 1`.
"""

import asyncio
import base64
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from itertools import count
from pathlib import Path
from typing import Annotated, Literal, TextIO

import httpx2
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from agent_cli.contracts.errors import ModelError
from agent_cli.contracts.timeline import Json
from agent_cli.system.records import dataclass

KEPT_HEADERS = frozenset(
    {
        "content-type",
        "content-encoding",
        "request-id",
        "retry-after",
        "retry-after-ms",
        "x-should-retry",
    }
)


class RecordingEnded(ModelError):
    """A request came after the last recorded reply."""


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    reply: int = 0


class ResponseLine(_Line):
    """A response begins."""

    type: Literal["response"]
    status: int
    headers: dict[str, str]


class ChunkLine(_Line):
    """Bytes of the body: `text` if they are UTF-8, else `base64`."""

    type: Literal["chunk"]
    at_s: float
    text: str | None = None
    base64: str | None = None

    @property
    def content(self) -> bytes:
        """The bytes as they arrived."""
        return base64.b64decode(self.base64) if self.base64 else (self.text or "").encode()


class EndLine(_Line):
    """The body is complete."""

    type: Literal["end"]


class BrokenLine(_Line):
    """The connection broke."""

    type: Literal["broken"]
    error: str


RecordingLine = Annotated[
    ResponseLine | ChunkLine | EndLine | BrokenLine, Field(discriminator="type")
]
RECORDING_LINE: TypeAdapter[RecordingLine] = TypeAdapter(RecordingLine)


def start_recording(path: Path) -> None:
    """Create the recording, or empty it.

    Raises:
        ModelError: It cannot be written.
    """
    try:
        _opened(path, os.O_TRUNC).close()
    except OSError as error:
        raise _unwritten(path, error) from error


def count_replies(path: Path) -> int:
    """Return the number of replies in the recording *path*.

    Raises:
        ModelError: It is no recording, or cannot be read.
    """
    return len(_read(path))


class RecordTransport(httpx2.AsyncBaseTransport):
    """Passes everything through and adds the responses to a recording while they arrive."""

    def __init__(
        self,
        transport: httpx2.AsyncBaseTransport,
        path: Path,
        redact: Callable[[str], str] = str,
    ) -> None:
        self._transport = transport
        self._redact = redact
        self._path = path
        self._arriving: set[int] = set()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send *request*; the response's body is recorded as it is read."""
        response = await self._transport.handle_async_request(request)
        headers = {k: v for k, v in response.headers.items() if k.lower() in KEPT_HEADERS}
        reply = next(number for number in count() if number not in self._arriving)
        write = partial(self._write, reply)
        write({"type": "response", "status": response.status_code, "headers": {**headers}})
        self._arriving.add(reply)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        ended = partial(self._arriving.discard, reply)
        response.stream = _RecordedStream(response.stream, write, ended)
        return response

    async def aclose(self) -> None:
        """Close the underlying transport."""
        await self._transport.aclose()

    def _write(self, reply: int, line: dict[str, Json]) -> None:
        if reply:
            line = {**line, "reply": reply}
        if isinstance(line.get("text"), str):
            # A server, or a gateway before it, may quote a rejected key.
            line = {**line, "text": self._redact(str(line["text"]))}
        try:
            with _opened(self._path, os.O_APPEND) as file:
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
        except OSError as error:
            raise _unwritten(self._path, error) from error


def _opened(path: Path, flags: int) -> TextIO:
    """Open *path* for writing; a new file is private to the user under any umask."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o600), "w", encoding="utf-8")


class ReplayTransport(httpx2.AsyncBaseTransport):
    """Answers each request with the next recorded reply, without network or key."""

    def __init__(self, path: Path, *, pace: float = 0.0) -> None:
        self._path = path
        self._pace = pace
        self._replies = _read(path)
        self._played = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the next reply.

        Raises:
            RecordingEnded: The recording has no more replies.
        """
        if self._played == len(self._replies):
            raise RecordingEnded(
                f"the recording {self._path} holds {len(self._replies)} replies and the run asked "
                "for one more; it was made for another prompt or another version"
            )
        reply = self._replies[self._played]
        self._played += 1
        return httpx2.Response(
            reply.status,
            headers=reply.headers,
            stream=_ReplayedStream(reply, self._pace),
            request=request,
        )


@dataclass(frozen=True, slots=True)
class _RecordedReply:
    """One reply of a recording; `end` is None if the recording stops within it."""

    status: int
    headers: Mapping[str, str]
    chunks: tuple[ChunkLine, ...]
    end: EndLine | BrokenLine | None


class _RecordedStream(httpx2.AsyncByteStream):
    """A response body that is recorded as it passes."""

    def __init__(
        self,
        stream: httpx2.AsyncByteStream,
        write: Callable[[dict[str, Json]], None],
        ended: Callable[[], None],
    ) -> None:
        self._stream = stream
        self._write = write
        self._ended = ended

    async def __aiter__(self) -> AsyncIterator[bytes]:
        start_s = time.monotonic()
        try:
            async for chunk in self._stream:
                self._write(_chunk_line(chunk, at_s=time.monotonic() - start_s))
                yield chunk
        except httpx2.TransportError as error:
            self._write({"type": "broken", "error": type(error).__name__})
            raise
        self._write({"type": "end"})

    async def aclose(self) -> None:
        self._ended()
        await self._stream.aclose()


class _ReplayedStream(httpx2.AsyncByteStream):
    """A recorded body, played with the recorded pauses multiplied by *pace*."""

    def __init__(self, reply: _RecordedReply, pace: float) -> None:
        self._reply = reply
        self._pace = pace

    async def __aiter__(self) -> AsyncIterator[bytes]:
        passed_s = 0.0
        for chunk in self._reply.chunks:
            await asyncio.sleep(max(0.0, chunk.at_s - passed_s) * self._pace)
            passed_s = chunk.at_s
            yield chunk.content
        if isinstance(self._reply.end, BrokenLine):
            raise httpx2.ReadError(f"recorded: {self._reply.end.error}")


def _unwritten(path: Path, error: OSError) -> ModelError:
    return ModelError(f"the recording {path} cannot be written: {error.strerror}")


def _chunk_line(chunk: bytes, *, at_s: float) -> dict[str, Json]:
    line: dict[str, Json] = {"type": "chunk", "at_s": round(at_s, 4)}
    try:
        return {**line, "text": chunk.decode()}
    except UnicodeDecodeError:
        return {**line, "base64": base64.b64encode(chunk).decode()}


def _read(path: Path) -> list[_RecordedReply]:
    try:
        # Not `splitlines`, which also splits at U+2028 and others that a reply may hold.
        lines = path.read_text(encoding="utf-8").split("\n")
        parsed = [RECORDING_LINE.validate_json(line) for line in lines if line]
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ModelError(f"the recording {path} cannot be read: {reason}") from error
    except ValidationError as error:
        raise ModelError(
            f"{path} is not a recording made with --record: {error.errors()[0]['msg']}"
        ) from error
    replies: list[list[RecordingLine]] = []
    arriving: dict[int, list[RecordingLine]] = {}
    for line in parsed:
        if isinstance(line, ResponseLine):
            arriving[line.reply] = []
            replies.append(arriving[line.reply])
        if line.reply in arriving:
            arriving[line.reply].append(line)
    if not replies:
        raise ModelError(f"the recording {path} holds no reply; record the run again")
    return [*map(_reply, replies)]


def _reply(lines: list[RecordingLine]) -> _RecordedReply:
    start = lines[0]
    assert isinstance(start, ResponseLine)
    return _RecordedReply(
        start.status,
        start.headers,
        tuple(line for line in lines if isinstance(line, ChunkLine)),
        next((line for line in lines if isinstance(line, EndLine | BrokenLine)), None),
    )
