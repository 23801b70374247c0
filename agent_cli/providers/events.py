"""The events of an open reply, read under a limit; the provider interprets their data.

More lenient than the SDK: `event:` lines may be missing. Source: the HTML standard, section 9.2.6
(interpreting an event stream).
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from typing import Final

from agent_cli.providers.failures import BrokenReply
from agent_cli.providers.progress import ProgressLimit
from agent_cli.providers.transport import OpenReply
from agent_cli.system.records import dataclass


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event; `name` is "" when the server did not give one."""

    name: str
    data: str


class EventDecoder:
    """Splits a byte stream into events, independent of its chunks; incomplete events are kept."""

    def __init__(self) -> None:
        self._rest = b""
        self._name = ""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        """Yield the events that *chunk* completes.

        Raises:
            UnicodeDecodeError: A line is not UTF-8.
        """
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            field, _, value = line.removesuffix(b"\r").decode().partition(":")
            value = value.removeprefix(" ")
            if field == "data":
                self._data.append(value)
            elif field == "event":
                self._name = value
            elif line in (b"", b"\r"):
                if self._data:
                    yield ServerSentEvent(self._name, "\n".join(self._data))
                self._name, self._data = "", []


_STREAM = "text/event-stream"


async def events(opened: OpenReply, limit: ProgressLimit) -> AsyncGenerator[ServerSentEvent, None]:
    """Yield each event that has data; the caller reports progress to *limit*.

    Raises:
        BrokenReply: The stream is not UTF-8, or ended before its first event.
    """
    decoder, gulps = EventDecoder(), Gulps()
    clock = asyncio.get_running_loop().time
    head, has_events = b"", False
    while True:
        asked_s = clock()
        with limit:
            chunk = await anext(opened.chunks, None)
        if chunk is None:
            if not has_events and opened.content_type.startswith(_STREAM) and _begins(head):
                raise BrokenReply("it ended before its first event")
            return
        head = (head + chunk)[:6]
        pause_s = gulps.pause_s(clock() - asked_s)
        try:
            decoded = list(decoder.feed(chunk))
        except UnicodeDecodeError as error:
            raise BrokenReply(str(error)) from error
        for event in decoded:
            if event.data.strip():  # some servers keep the connection alive with blank ones
                has_events = True
                yield event
        if pause_s:
            await asyncio.sleep(pause_s)


def _begins(head: bytes) -> bool:
    """Return whether a stream of events can begin with *head*; a web page does not."""
    return any(line.startswith(head) or head.startswith(line) for line in (b"event:", b"data:"))


# Pauses between reads, so that one read returns several pieces of a reply.
#
# A read costs far more CPU time than the few characters it returns: reading every small piece of a
# long answer as it comes takes half as much CPU time again.

AFTER_PIECES: Final = 200
"""The beginning is read without pauses, so that short replies are not delayed."""

PAUSE_S: Final = 0.045
"""Less than the time between two frames."""

_THERE_ALREADY_S: Final = 0.000_5


class Gulps:
    """The pauses for one reply."""

    def __init__(self) -> None:
        self._pieces = 0

    def pause_s(self, waited_s: float) -> float:
        """Return the pause before the next read, after a read that waited *waited_s*.

        0 while pieces arrive faster than they are read, or too rarely for several to accumulate.
        """
        self._pieces += 1
        is_drip = _THERE_ALREADY_S < waited_s < PAUSE_S
        return PAUSE_S if is_drip and self._pieces > AFTER_PIECES else 0.0
