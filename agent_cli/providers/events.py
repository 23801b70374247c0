"""The events of an open reply, read under a limit; the provider interprets their data.

More lenient than the SDK: `event:` lines may be missing. Source: the HTML standard, section 9.2.6
(interpreting an event stream).
"""

from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from agent_cli.contracts.provider import (
    Reply,
    ReplyEnd,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
)
from agent_cli.providers.arrivals import ProgressLimit
from agent_cli.providers.failures import BrokenReply
from agent_cli.providers.transport import OpenReply
from agent_cli.system.logger import logger
from agent_cli.system.records import dataclass

EVENT_BYTES_MAX: Final = 32 * 1024 * 1024
_STREAM = "text/event-stream"

_log = logger(__name__)


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event; `name` is "" when the server did not give one."""

    name: str
    data: str


class EventDecoder:
    """Splits a byte stream into events, independent of its chunks; incomplete events are kept."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._name = ""
        self._data: list[str] = []
        self._data_bytes = 0

    def feed(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        """Yield the events that *chunk* completes.

        Raises:
            UnicodeDecodeError: A line is not UTF-8.
            BrokenReply: The incomplete event is longer than any that a server sends.
        """
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            line = bytes(self._line + end)
            self._line.clear()
            field, _, value = line.removesuffix(b"\r").decode().partition(":")
            field = field.removeprefix("\ufeff")  # servers of .NET begin with this mark
            value = value.removeprefix(" ")
            if field == "data":
                self._data.append(value)
                self._data_bytes += len(line)
            elif field == "event":
                self._name = value
            elif line in (b"", b"\r"):
                if self._data:
                    yield ServerSentEvent(self._name, "\n".join(self._data))
                self._name, self._data, self._data_bytes = "", [], 0
        self._line += rest
        if self._data_bytes + len(self._line) > EVENT_BYTES_MAX:
            raise BrokenReply(f"an event of more than {EVENT_BYTES_MAX // 1024 // 1024} MB")


async def events(
    opened: OpenReply, limit: ProgressLimit
) -> AsyncGenerator[Sequence[ServerSentEvent], None]:
    """Yield the events that have data, those that came together at once.

    The caller reports progress to *limit*.

    Raises:
        BrokenReply: The stream is not UTF-8, ended before its first event, or has an endless one.
    """
    decoder = EventDecoder()
    head, has_events = b"", False
    while True:
        with limit:
            chunk = await anext(opened.chunks, None)
        if chunk is None:
            if not has_events and opened.content_type.startswith(_STREAM) and _begins(head):
                raise BrokenReply("it ended before its first event")
            return
        head = (head + chunk)[:6]
        batch: list[ServerSentEvent] = []
        garbled: Exception | None = None
        try:
            # Some servers keep the connection alive with blank events.
            batch.extend(event for event in decoder.feed(chunk) if event.data.strip())
        except (UnicodeDecodeError, BrokenReply) as error:
            garbled = error
        if batch:
            has_events = True
            yield batch
        if garbled:
            raise BrokenReply(str(garbled)) from garbled


def _begins(head: bytes) -> bool:
    """Return whether a stream of events can begin with *head*; a web page does not."""
    lines = (b"event:", b"data:", b":")
    return any(line.startswith(head) or head.startswith(line) for line in lines)


_Delta: TypeAlias = TextDelta | ThinkingDelta | ToolCallDelta
_JOINED_CHARS_MAX: Final = 1_000
"""A front end handles keys between two pieces."""


def joined(events: Iterable[StreamEvent]) -> Iterator[StreamEvent]:
    """Yield *events*, with the pieces of one block that follow each other as one piece.

    What came before an exception of *events* is yielded before that is raised.
    """
    held: list[_Delta] = []
    chars = 0
    try:
        for event in events:
            if held and not (_continues(held[0], event) and chars < _JOINED_CHARS_MAX):
                yield _as_one(held)
                held, chars = [], 0
            if isinstance(event, _Delta):
                held.append(event)
                chars += len(event.delta)
            else:
                yield event
    except Exception:
        if held:
            yield _as_one(held)
        raise
    if held:
        yield _as_one(held)


def reply_end(reply: Reply, session_id: str | None) -> ReplyEnd:
    """Return the event for a complete *reply*, and log its figures."""
    _log.info(
        "model replied",
        session_id=session_id,
        request_id=reply.request_id,
        model=reply.model,
        stop_reason=reply.stop_reason,
        prompt_tokens=reply.usage.prompt_tokens,
        cache_read_tokens=reply.usage.cache_read_tokens,
        output_tokens=reply.usage.output_tokens,
    )
    return ReplyEnd(reply)


def _continues(piece: _Delta, event: StreamEvent) -> bool:
    return isinstance(event, type(piece)) and event.index == piece.index


def _as_one(pieces: Sequence[_Delta]) -> _Delta:
    return replace(pieces[0], delta="".join(piece.delta for piece in pieces))
