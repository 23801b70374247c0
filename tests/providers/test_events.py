"""The event stream format (server-sent events), and what is told of events that came together."""

from collections.abc import AsyncGenerator, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_cli.contracts.provider import (
    ReplyStart,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallStart,
)
from agent_cli.providers.arrivals import ProgressLimit
from agent_cli.providers.events import EventDecoder, ServerSentEvent, events, joined
from agent_cli.providers.failures import BrokenReply
from agent_cli.providers.transport import OpenReply
from tests.fakes import LIMIT_S
from tests.tables import each_row

STREAM = (
    b"\xef\xbb\xbfevent: one\ndata: first\n\n: a comment\n"
    b"data:second, unnamed\nid: 7\n\n"
    b"event: two\r\ndata: caf\xc3\xa9\r\n:\r\ndata: lines\r\n\r\n"
    b"event: nothing\n\n"
    b"data: cut off"
)
DELTAS = st.builds(
    lambda kind, index, text: kind(index, text),
    st.sampled_from([TextDelta, ThinkingDelta, ToolCallDelta]),
    st.integers(0, 1),
    st.text("ab", max_size=700),
)
EVENTS = st.lists(st.one_of(DELTAS, DELTAS, st.just(ReplyStart("m"))), max_size=20)


@each_row("size", [1, 2, 7, 1000])
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


@each_row("sent", [b"", b"data", b": PROCESSING\n\n"])
async def test_stream_that_ends_before_its_first_event_is_broken(sent: bytes) -> None:
    """A retry may help; the address was blamed if the server had sent nothing but comments."""

    async def chunks() -> AsyncGenerator[bytes]:
        yield sent

    opened = OpenReply(chunks(), "text/event-stream", None)

    with pytest.raises(BrokenReply, match="it ended before its first event"):
        await anext(events(opened, ProgressLimit(LIMIT_S, "it")))


async def test_what_came_with_a_garbled_line_is_told_before_it() -> None:
    """The user sees all that the server sent."""

    async def chunks() -> AsyncGenerator[bytes]:
        yield b"data: first\n\ndata: second\n\ndata: caf\xe9\n\n"

    opened = OpenReply(chunks(), "text/event-stream", None)
    found: list[list[str]] = []

    with pytest.raises(BrokenReply, match="utf-8"):
        async for came in events(opened, ProgressLimit(LIMIT_S, "the server")):
            found.append([event.data for event in came])

    assert found == [["first", "second"]]


def test_pieces_of_one_block_that_follow_each_other_are_one() -> None:
    """Each event passes a dozen functions, however short its text is."""
    call = ToolCallStart(2, "t1", "read")
    told: list[StreamEvent] = [
        *(ThinkingDelta(0, "h"), ThinkingDelta(0, "m")),
        *(TextDelta(0, "a"), TextDelta(1, "b"), TextDelta(1, "c")),
        *(call, ToolCallDelta(2, "{"), ToolCallDelta(2, "}")),
    ]

    assert [*joined(told)] == [
        *(ThinkingDelta(0, "hm"), TextDelta(0, "a"), TextDelta(1, "bc")),
        *(call, ToolCallDelta(2, "{}")),
    ]


def test_what_came_before_a_failure_is_told_before_it() -> None:
    """An error of the server may arrive together with text."""

    def told() -> Iterator[StreamEvent]:
        yield TextDelta(0, "half ")
        yield TextDelta(0, "of it")
        raise BrokenReply("garbled")

    found: list[StreamEvent] = []

    with pytest.raises(BrokenReply, match="garbled"):
        found.extend(joined(told()))

    assert found == [TextDelta(0, "half of it")]


@given(EVENTS)
def test_joining_loses_and_moves_nothing(told: list[StreamEvent]) -> None:
    """Cut into characters again, the events are the same; no piece holds the keyboard up."""
    found = [*joined(told)]

    assert _characters(found) == _characters(told)
    assert len(found) <= len(told)
    deltas = (TextDelta, ThinkingDelta, ToolCallDelta)
    assert all(len(each.delta) < 1_700 for each in found if isinstance(each, deltas))


def _characters(told: list[StreamEvent]) -> list[object]:
    """Return *told* with each delta as single characters."""
    found: list[object] = []
    for event in told:
        if isinstance(event, TextDelta | ThinkingDelta | ToolCallDelta):
            found += [(event.type, event.index, character) for character in event.delta]
        else:
            found.append(event)
    return found
