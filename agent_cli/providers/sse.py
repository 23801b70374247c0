"""Server-sent events from bytes. More lenient than the SDK: `event:` lines may be missing.

Source: the HTML standard, section 9.2.6 (interpreting an event stream).
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event; `name` is "" when the server did not give one."""

    name: str
    data: str


async def server_sent_events(chunks: AsyncIterator[bytes]) -> AsyncIterator[ServerSentEvent]:
    """Yield the events of *chunks*; one that the end cuts off is dropped.

    Raises:
        UnicodeDecodeError: A line is not UTF-8.
    """
    name = ""
    data: list[str] = []
    async for line in _lines(chunks):
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if data:
                yield ServerSentEvent(name, "\n".join(data))
            name, data = "", []
        elif field == "event":
            name = value
        elif field == "data":
            data.append(value)


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[str]:
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r").decode()
