"""The event stream format (server-sent events)."""

import pytest

from agent_cli.providers.events import EventDecoder, ServerSentEvent

STREAM = (
    b": a comment\n"
    b"event: one\ndata: first\n\n"
    b"data:second, unnamed\nid: 7\n\n"
    b"event: two\r\ndata: caf\xc3\xa9\r\n:\r\ndata: lines\r\n\r\n"
    b"event: nothing\n\n"
    b"data: cut off"
)


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_events_are_parsed_wherever_the_network_splits_the_stream(size: int) -> None:
    """Inside a character, a line ending, a name; an incomplete event is dropped."""
    decoder = EventDecoder()
    pieces = [STREAM[start : start + size] for start in range(0, len(STREAM), size)]

    found = [event for piece in pieces for event in decoder.feed(piece)]

    assert found == [
        ServerSentEvent("one", "first"),
        ServerSentEvent("", "second, unnamed"),
        ServerSentEvent("two", "café\nlines"),
    ]
