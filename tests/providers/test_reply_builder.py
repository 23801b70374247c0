"""Blocks and figures from raw events, and the conditions of a broken reply."""

import json
from collections.abc import Iterable

import pytest

from agent_cli.contracts.provider import Reply, ToolCallStart
from agent_cli.contracts.timeline import Block, Json
from agent_cli.providers.failures import BrokenReply
from agent_cli.providers.reply_builder import ReplyBuilder
from tests.messages_api.script import Payload

START: Payload = {"type": "message_start", "message": {"id": "msg_1", "model": "claude-opus-5"}}
END: Payload = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
STOP: Payload = {"type": "message_stop"}


def built(*events: Payload) -> ReplyBuilder:
    """Return a builder fed with *events*."""
    builder = ReplyBuilder("claude-opus-5", "req_1")
    for event in events:
        list(builder.feed(event))
    return builder


def reply_of(block: Block, deltas: Iterable[Payload], *, usage: Json = None) -> Reply:
    """Return the reply of one block."""
    return built(
        START,
        {"type": "content_block_start", "index": 0, "content_block": block},
        *[{"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas],
        {"type": "content_block_stop", "index": 0},
        {**END, "usage": usage} if usage else END,
        STOP,
    ).reply()


def tool_input(*pieces: str, given: Json = None) -> Json:
    """Return the arguments built from *pieces*."""
    block: Block = {"type": "tool_use", "id": "t", "name": "n", "input": given or {}}
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return reply_of(block, deltas).content[0]["input"]


@pytest.mark.parametrize(
    ("pieces", "arguments"),
    [
        (('{"a"', ": 1}"), {"a": 1}),
        (("",), {}),
        ((), {}),
        (('{"a": "half',), {"INVALID_JSON": '{"a": "half'}),
        (("[1]",), {"INVALID_JSON": "[1]"}),
        (('{"a": NaN}',), {"INVALID_JSON": '{"a": NaN}'}),
        (('{"a": "\\ud800"}',), {"INVALID_JSON": '{"a": "\\ud800"}'}),
        (('{"a": "\\ud83d', '\\ude00"}'), {"a": "😀"}),
    ],
)
def test_arguments_are_parsed_when_their_block_ends(
    pieces: tuple[str, ...], arguments: Json
) -> None:
    """Anything but a serializable JSON object is kept as text for the model."""
    assert tool_input(*pieces) == arguments


@pytest.mark.parametrize("depth", [100, 700, 3_000])
def test_brackets_without_end_are_text_for_the_model(depth: int) -> None:
    """Parsing, recording and sending a repetitive model's output recurse into the nesting."""
    deep = f'{{"a": {"[" * depth}{"]" * depth}}}'
    deepest = f'{{"a": {"[" * 99}{"]" * 99}}}'

    assert tool_input(deep) == {"INVALID_JSON": deep}
    assert tool_input(deep[: 6 + depth]) == {"INVALID_JSON": deep[: 6 + depth]}
    assert tool_input(deepest) == json.loads(deepest)


def test_arguments_that_came_with_the_start_are_kept() -> None:
    assert tool_input(given={"a": 1}) == {"a": 1}


def test_a_call_without_an_id_gets_one() -> None:
    """Some servers leave it empty, and the result must refer to an id."""
    builder = built(START)
    block: Payload = {"type": "tool_use", "id": "", "name": "n", "input": {}}
    (event,) = builder.feed({"type": "content_block_start", "index": 0, "content_block": block})

    assert isinstance(event, ToolCallStart)
    assert event.id.startswith("toolu_")


def test_citations_and_compactions_are_collected() -> None:
    cited = reply_of(
        {"type": "text", "text": "", "citations": None},
        [
            {"type": "citations_delta", "citation": {"n": 1}},
            {"type": "text_delta", "text": "a"},
            {"type": "citations_delta", "citation": {"n": 2}},
        ],
    )
    compacted = reply_of(
        {"type": "compaction", "content": None},
        [{"type": "compaction_delta", "content": "short", "encrypted_content": "x"}],
    )

    assert cited.content == ({"type": "text", "text": "a", "citations": [{"n": 1}, {"n": 2}]},)
    assert compacted.content == (
        {"type": "compaction", "content": "short", "encrypted_content": "x"},
    )


def test_figures_of_the_end_replace_those_of_the_start() -> None:
    """They are cumulative; null means unchanged. Cache writes are split by lifetime."""
    usage: Payload = {
        "input_tokens": None,
        "output_tokens": 50,
        "cache_creation_input_tokens": 30,
        "cache_creation": {"ephemeral_1h_input_tokens": 10, "ephemeral_5m_input_tokens": 20},
    }
    start: Payload = {**START["message"], "usage": {"input_tokens": 5, "output_tokens": 1}}

    found = built(
        {"type": "message_start", "message": start}, {**END, "usage": usage}, STOP
    ).reply()

    assert found.usage.input_tokens == 5
    assert found.usage.output_tokens == 50
    assert (found.usage.cache_write_5m_tokens, found.usage.cache_write_1h_tokens) == (20, 10)


def test_cache_writes_without_a_split_are_of_the_usual_lifetime() -> None:
    """Older and compatible servers give one figure."""
    usage: Payload = {"cache_creation_input_tokens": 30}

    found = built(START, {**END, "usage": usage}, STOP).reply()

    assert (found.usage.cache_write_5m_tokens, found.usage.cache_write_1h_tokens) == (30, 0)


def test_blocks_are_ordered_by_index() -> None:
    """They may overlap in the stream."""
    builder = built(START)
    for index in (1, 0):
        block: Payload = {"type": "text", "text": str(index)}
        list(builder.feed({"type": "content_block_start", "index": index, "content_block": block}))
    for index in (1, 0):
        list(builder.feed({"type": "content_block_stop", "index": index}))
    for event in (END, STOP):
        list(builder.feed(event))

    assert [block["text"] for block in builder.reply().content] == ["0", "1"]


def test_a_block_whose_end_is_missing_ends_with_the_reply() -> None:
    """Some servers never send its end."""
    block: Payload = {"type": "text", "text": "said"}
    start = {"type": "content_block_start", "index": 0, "content_block": block}

    assert built(START, start, END, STOP).reply().content == (block,)


@pytest.mark.parametrize("end", [(), (END,), (STOP,)])
def test_complete_means_a_stop_reason_and_message_stop(end: tuple[Payload, ...]) -> None:
    assert not built(START, *end).complete
    assert built(START, END, STOP).complete


@pytest.mark.parametrize(
    "event",
    [
        {"type": "content_block_start", "index": 0, "content_block": {}},
        {"type": "content_block_start", "index": 0, "content_block": "text"},
        {"type": "content_block_start", "content_block": {"type": "text"}},
        {"type": "content_block_stop", "index": 3},
        {"type": "content_block_delta", "index": 3, "delta": {"type": "text_delta"}},
        {"type": "message_start", "message": None},
    ],
)
def test_an_event_that_does_not_fit_breaks_the_reply(event: Payload) -> None:
    with pytest.raises(BrokenReply):
        built(START, event)
