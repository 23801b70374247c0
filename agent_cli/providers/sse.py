"""Server-sent events from bytes. More lenient than the SDK: `event:` lines may be missing.

Source: the HTML standard, section 9.2.6 (interpreting an event stream).
"""

from collections.abc import Iterator

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
