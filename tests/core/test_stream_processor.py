"""From recorded lists of stream events to replies."""

from collections.abc import AsyncIterator, Sequence

import pytest

from agent_cli.contracts.errors import ModelError
from agent_cli.contracts.provider import (
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
from agent_cli.contracts.timeline import text_block
from agent_cli.core.stream_processor import StreamProcessor, StreamResult, has_tool_calls
from tests.fakes import calls, says, stream_of, tool_use


async def played(events: Sequence[StreamEvent]) -> AsyncIterator[StreamEvent]:
    for event in events:
        yield event


async def processed(reply: Reply) -> StreamResult:
    return await StreamProcessor().process(played(stream_of(reply)))


async def test_thinking_and_text_are_accumulated_apart() -> None:
    """S4-01, S4-24: accumulation over a whole stream."""
    result = await processed(says("Hello  world\n", thinking="Hm. Well."))

    assert result == StreamResult("Hm. Well.", "Hello  world\n", (), "stop")


async def test_tool_calls_are_parsed_in_order() -> None:
    """S4-01, S4-02, S4-24: complete blocks, with the text before them."""
    uses = tool_use("a", {"x": [1]}, "t1"), tool_use("b", {}, "t2")

    result = await processed(calls(*uses, text="Let me see."))

    assert result == StreamResult("", "Let me see.", uses, "tool_calls")
    assert has_tool_calls(result)


@pytest.mark.parametrize(
    ("stop_reason", "finish_reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        ("tool_use", "tool_calls"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refusal"),
    ],
)
async def test_each_stop_reason_has_a_finish_reason(stop_reason: str, finish_reason: str) -> None:
    """S4-01: the mapping, whole."""
    assert (await processed(says("x", stop_reason=stop_reason))).finish_reason == finish_reason


async def test_a_call_that_was_cut_off_is_no_call() -> None:
    """S4-02, S4-30: at max_tokens the last one may be half."""
    result = await processed(calls(tool_use("a"), stop_reason="max_tokens"))

    assert (result.tool_calls, result.finish_reason) == ((), "length")
    assert not has_tool_calls(result)


async def test_a_complete_call_is_a_call_whatever_the_stop_reason() -> None:
    """S4-02: some servers end a reply with calls like an answer."""
    use = tool_use("a")

    result = await processed(calls(use, stop_reason="end_turn"))

    assert (result.tool_calls, result.finish_reason) == ((use,), "tool_calls")


async def test_a_stream_without_an_end_is_an_error() -> None:
    """S4-01: half a reply is not a result."""
    with pytest.raises(ModelError, match="complete reply"):
        await StreamProcessor().process(played([ReplyStart("m"), TextDelta(0, "half")]))


async def test_a_restart_forgets_what_came_before() -> None:
    """S1-22: the text appears once."""
    events = [
        TextDelta(0, "half"),
        Retrying(1, 5, 0.0, "overloaded", restarted=True),
        *stream_of(says("whole")),
    ]
    processor = StreamProcessor()

    result = await processor.process(played(events))

    assert (result.content, processor.text) == ("whole", "whole")


def test_a_snapshot_stays_as_it_was() -> None:
    """S0-12: an event kept for later still shows its own moment."""
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


@pytest.mark.parametrize(
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
def test_any_first_event_begins_a_reply(event: StreamEvent) -> None:
    """S0-41: not every stream announces itself."""
    processor = StreamProcessor()

    processor.feed(event)

    assert processor.started
