"""Recorded lists of stream events become replies."""

from collections.abc import AsyncIterator, Sequence

import pytest

from agent_cli.contracts.errors import ModelError
from agent_cli.contracts.messages import AssistantMessage
from agent_cli.contracts.provider import (
    BlockEnd,
    Reply,
    ReplyEnd,
    ReplyStart,
    Retrying,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallStart,
)
from agent_cli.contracts.timeline import Block, text_block
from agent_cli.core.stream_processor import StreamProcessor, StreamResult
from tests.fakes import calls, says, stream_of, tool_use
from tests.tables import each_row


async def played(events: Sequence[StreamEvent]) -> AsyncIterator[StreamEvent]:
    for event in events:
        yield event


async def processed(reply: Reply) -> StreamResult:
    return await StreamProcessor().process(played(stream_of(reply)))


PIECES: list[StreamEvent] = [
    ReplyStart("m"),
    ThinkingDelta(0, "Hm. "),
    ThinkingDelta(0, "Well."),
    TextDelta(1, "Let me "),
    TextDelta(1, " see.\n"),
    BlockEnd(1, text_block("Let me  see.\n")),
    ToolCallStart(2, "t1", "a"),
    ToolCallDelta(2, '{"x": '),
    ToolCallDelta(2, "[1]}"),
    BlockEnd(2, {"type": "tool_use", "id": "t1", "name": "a", "input": {"x": [1]}}),
    ToolCallStart(3, "t2", "b"),
]


def test_deltas_are_accumulated_into_blocks_in_order() -> None:
    """S4-01, S4-24: without the complete reply at the end."""
    processor = StreamProcessor(started_ms=7)
    for event in PIECES:
        processor.feed(event)

    assert processor.snapshot()() == AssistantMessage(
        (
            {"type": "thinking", "thinking": "Hm. Well."},
            {"type": "text", "text": "Let me  see.\n"},
            {"type": "tool_use", "id": "t1", "name": "a", "input": {"x": [1]}},
            {"type": "tool_use", "id": "t2", "name": "b", "input": {}},
        ),
        "",
        model="m",
        timestamp=7,
    )
    assert processor.text == "Let me  see.\n"
    assert processor.reply is None


def test_blocks_are_ordered_by_index_not_by_arrival() -> None:
    """S4-01: text after a call stays after it."""
    processor = StreamProcessor()
    for event in (TextDelta(2, "after"), ToolCallStart(1, "t1", "a"), TextDelta(0, "before")):
        processor.feed(event)

    kinds = [block.get("text", block["type"]) for block in processor.snapshot()().content]
    assert kinds == ["before", "tool_use", "after"]


async def test_stream_result_separates_thinking_text_and_tool_calls() -> None:
    """S4-01, S4-02, S4-24: the calls are complete and in order."""
    content: tuple[Block, ...] = (
        {"type": "thinking", "thinking": "Hm. Well.", "signature": "s"},
        {"type": "text", "text": "Let me see."},
        {"type": "tool_use", "id": "t1", "name": "a", "input": {"x": [1]}},
        {"type": "text", "text": " And."},
        {"type": "tool_use", "id": "t2", "name": "b", "input": {}},
    )
    end = ReplyEnd(Reply("msg_1", "m", content, "tool_use"))

    result = await StreamProcessor().process(played([*PIECES, end]))

    assert (result.thinking, result.content) == ("Hm. Well.", "Let me see. And.")
    assert result.tool_calls == (content[2], content[4])
    assert result.finish_reason == "tool_calls"
    assert StreamProcessor.has_tool_calls(result)


@each_row(
    ("calls", "expected"), [((), False), (({"type": "tool_use", "id": "t", "name": "a"},), True)]
)
def test_stream_result_with_a_call_has_tool_calls(
    calls: tuple[Block, ...], *, expected: bool
) -> None:
    """S4-02: the finish reason does not matter."""
    result = StreamResult("", "", calls, "tool_calls")

    assert StreamProcessor().has_tool_calls(result) is expected


@each_row(
    ("stop_reason", "finish_reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        ("tool_use", "tool_calls"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refusal"),
        ("a_newer_reason", "stop"),
    ],
)
async def test_each_stop_reason_maps_to_a_finish_reason(
    stop_reason: str, finish_reason: str
) -> None:
    """S4-01: try every stop reason."""
    assert (await processed(says("x", stop_reason=stop_reason))).finish_reason == finish_reason


async def test_call_of_a_reply_cut_off_at_max_tokens_is_dropped() -> None:
    """S4-02, S4-30: the last call may be incomplete."""
    result = await processed(calls(tool_use("a"), stop_reason="max_tokens"))

    assert (result.tool_calls, result.finish_reason) == ((), "length")
    assert not StreamProcessor.has_tool_calls(result)


async def test_complete_call_is_kept_whatever_the_stop_reason() -> None:
    """S4-02: some servers report the stop reason of an answer."""
    use = tool_use("a")

    result = await processed(calls(use, stop_reason="end_turn"))

    assert (result.tool_calls, result.finish_reason) == ((use,), "tool_calls")


async def test_a_stream_without_an_end_is_an_error() -> None:
    """S4-01: an incomplete reply is not a result."""
    with pytest.raises(ModelError, match=r"^the model's stream .* complete reply: ask again$"):
        await StreamProcessor().process(played([ReplyStart("m"), TextDelta(0, "half")]))


async def test_restart_discards_the_text_before_the_restart() -> None:
    """S1-22: the text of the reply appears once."""
    events = [
        TextDelta(0, "half"),
        Retrying(1, 5, 0.0, "overloaded", restarted=True),
        *stream_of(says("whole")),
    ]
    processor = StreamProcessor()

    result = await processor.process(played(events))

    assert (result.content, processor.text) == ("whole", "whole")


def test_snapshot_does_not_change_with_later_events() -> None:
    """S0-12: an event kept for later still shows the state at that time."""
    processor = StreamProcessor()
    processor.feed(ReplyStart("m"))
    empty = processor.snapshot()
    processor.feed(ThinkingDelta(0, "Hm."))
    processor.feed(TextDelta(1, "one "))
    half = processor.snapshot()
    processor.feed(TextDelta(1, "two"))
    whole = processor.snapshot()
    processor.feed(Retrying(1, 5, 0.0, "x", restarted=True))

    assert [each().text for each in (empty, half, whole)] == ["", "one ", "one two"]
    assert half().content == ({"type": "thinking", "thinking": "Hm."}, text_block("one "))
    assert (half().model, processor.text) == ("m", "")


@each_row(
    "event",
    [
        ReplyStart("m"),
        TextDelta(0, "x"),
        ThinkingDelta(0, "x"),
        ToolCallStart(0, "t1", "a"),
        ToolCallDelta(0, "{"),
        ReplyEnd(says("x")),
    ],
)
def test_any_event_starts_a_reply(event: StreamEvent) -> None:
    """S0-41: not every stream sends a start event."""
    processor = StreamProcessor()

    processor.feed(event)

    assert processor.started
