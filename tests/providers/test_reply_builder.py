"""Raw events become blocks and usage figures; which events make a reply broken."""

import json
import math
from collections.abc import Iterable
from dataclasses import replace

import pytest

from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.provider import Reply, ToolCallStart
from agent_cli.contracts.timeline import Block, Json
from agent_cli.contracts.tooling import check_input
from agent_cli.providers.anthropic.reply_builder import ReplyBuilder
from agent_cli.providers.failures import BrokenReply
from tests.fakes import LOOK
from tests.messages_api.script import Payload
from tests.tables import each_row

START: Payload = {"type": "message_start", "message": {"id": "msg_1", "model": "claude-opus-5"}}
END: Payload = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
STOP: Payload = {"type": "message_stop"}


def built(*events: Payload, model: str = "claude-opus-5") -> ReplyBuilder:
    """Return a builder fed with *events*."""
    builder = ReplyBuilder(model, "req_1")
    for event in events:
        list(builder.feed(event))
    return builder


def reply_of(
    block: Block,
    deltas: Iterable[Payload],
    *,
    usage: Json = None,
    model: str = "claude-opus-5",
) -> Reply:
    """Return the reply of one block."""
    return built(
        START,
        {"type": "content_block_start", "index": 0, "content_block": block},
        *[{"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas],
        {"type": "content_block_stop", "index": 0},
        {**END, "usage": usage} if usage else END,
        STOP,
        model=model,
    ).reply()


def _used(output_tokens: int, model: str = "", kind: str = "message") -> Payload:
    named = {"model": model} if model else {}
    return {"type": kind, **named, "input_tokens": 1_000, "output_tokens": output_tokens}


SONNET, OPUS, FABLE = "claude-sonnet-5-5", "claude-opus-5", "claude-fable-5-2"


FAST = "claude-opus-5-fast"


@each_row(
    ("requested", "usage", "answered", "cost"),
    [
        (FAST, {"speed": "fast"}, FAST, 60_000),
        (FAST, {"speed": "standard"}, OPUS, 30_000),
        (FAST, {}, FAST, 60_000),  # not told: no limit of cost may be passed
        (OPUS, {}, OPUS, 30_000),
        (OPUS, {"speed": "fast"}, FAST, 60_000),
        (FAST, {"iterations": [_used(1_000, OPUS)]}, FAST, 60_000),
    ],
)
def test_reply_costs_the_price_of_the_speed_that_it_had(
    requested: str, usage: dict[str, Json], answered: str, cost: int
) -> None:
    """A server may answer at the usual speed, and then asks for the usual price."""
    tokens: Json = {"input_tokens": 1_000, "output_tokens": 1_000, **usage}
    reply = reply_of({"type": "text", "text": "hi"}, [], usage=tokens, model=requested)

    assert (reply.model, reply.billed.cost_microdollars) == (answered, cost)


@each_row(
    ("geo", "is_placed", "cost"),
    [("us", False, 33_000), ("us", True, 30_000), ("global", False, 30_000)],
)
def test_reply_from_the_united_states_costs_more(geo: str, is_placed: bool, cost: int) -> None:
    """A workspace may be set to it. Where the request says so, the prices are those already."""
    usage: Payload = {"input_tokens": 1_000, "output_tokens": 1_000, "inference_geo": geo}
    builder = ReplyBuilder("claude-opus-5", None, is_placed=is_placed)
    for event in (START, {**END, "usage": usage}, STOP):
        list(builder.feed(event))

    assert builder.reply().billed.cost_microdollars == cost


@pytest.mark.parametrize("named", [OPUS, f"{OPUS}-20260901"])
def test_model_that_declined_in_fast_mode_costs_its_price(named: str) -> None:
    """The one that answered did so at the usual speed."""
    tries = [_used(3, named), _used(9, SONNET, "fallback_message")]
    usage: Json = {"input_tokens": 1_000, "speed": "standard", "iterations": [*tries]}
    reply = reply_of({"type": "text", "text": "hi"}, [], usage=usage, model=FAST)

    assert (reply.model, reply.usage.cost_microdollars) == (SONNET, 2_090)
    assert [(e.model, e.usage.cost_microdollars) for e in reply.beside] == [(FAST, 10_150)]


@pytest.mark.parametrize(
    ("iterations", "own", "beside"),
    [
        pytest.param([_used(7)], (7, 5_175), [], id="one"),
        pytest.param(
            [_used(3), _used(4, SONNET), _used(9, FABLE, "fallback_message")],
            (9, 8_360),
            [(OPUS, 3, 5_075), (SONNET, 4, 2_040)],
            id="two declined",
        ),
        pytest.param(
            [_used(3, OPUS), *[_used(1, SONNET)] * 2, _used(9, SONNET, "fallback_message")],
            (9, 2_090),
            [(OPUS, 3, 5_075), (SONNET, 2, 4_020)],
            id="rounds of the model that answered",
        ),
        pytest.param(
            [_used(3, OPUS), _used(4, SONNET)],
            (4, 2_040),
            [(OPUS, 3, 5_075)],
            id="all declined",
        ),
        pytest.param([_used(3), _used(4)], (7, 5_175), [], id="rounds of one model"),
    ],
)
def test_each_model_that_was_asked_has_its_own_tokens_and_cost(
    iterations: list[Json], own: tuple[int, int], beside: list[tuple[str, int, int]]
) -> None:
    """The model that answered has the size of the context; the bill has all."""
    usage: Json = {"input_tokens": 1_000, "output_tokens": 7, "iterations": iterations}
    reply = reply_of({"type": "text", "text": "hi"}, [], usage=usage)

    assert (reply.usage.output_tokens, reply.usage.cost_microdollars) == own
    found = [(e.model, e.usage.output_tokens, e.usage.cost_microdollars) for e in reply.beside]
    assert found == beside
    assert reply.billed.cost_microdollars == own[1] + sum(cost for _, _, cost in beside)


REAL_INPUTS = [
    '{"command": "git log --oneline | head -5", "timeout_s": 30}',
    '{"path": "src/app.py", "offset": 1, "limit": 200}',
    '{"path": "a b.txt", "content": "line one\\n\\ttabbed \\"quoted\\" \\\\ back"}',
    '{"edits": [{"old": "x = 1", "new": "x = 2"}, {"old": "}", "new": "{"}]}',
    '{"pattern": "def \\\\w+\\\\(", "path": ".", "glob": "**/*.py"}',
    '{"query": "r\\u00e9sum\\u00e9 \\ud83d\\ude00", "limit": 10}',
    '{"title": "Crash at start", "body": "## Steps\\n1. …\\n2. 走る", "labels": ["bug", "p1"]}',
    '{"sql": "SELECT * FROM t WHERE name = \'O\'\'Neil\'", "params": [1, 2.5, null, true]}',
    '{"url": "https://example.com/?q=%7B%22a%22%3A1%7D#x", "headers": {"Accept": "*/*"}}',
    '{"filter": {"and": [{"eq": {"status": "open"}}, {"not": {"in": {"id": [1, 2]}}}]}}',
    '{"amount": -12.5e-3, "currency": "EUR", "confirm": false}',
    '{"selector": "#main > div[data-x=\\"1\\"]", "timeout": 5000}',
    '{"todos": [{"text": "write tests", "status": "done"}, {"text": "ship", "status": "open"}]}',
    '{"channel": "C024BE91L", "text": "<@U1> `code` *bold*", "thread_ts": "1700000000.000100"}',
    '{"start": "2026-11-23T14:00:00Z", "end": null, "attendees": []}',
    '{"key": "", "value": {}, "ttl": 0}',
    '{"regex": "^[^\\\\s]+$", "flags": "gi"}',
    '{"a": {"b": {"c": {"d": {"e": [[[["deep"]]]]}}}}}',
    '{"path": "C:\\\\Users\\\\me\\\\notes.txt"}',
    '{"id": 12345678901234567890, "dry_run": true}',
]


def tool_input(*pieces: str, given: Json = None) -> Json:
    """Return the arguments built from *pieces*."""
    block: Block = {"type": "tool_use", "id": "t", "name": "n", "input": given or {}}
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return reply_of(block, deltas).content[0]["input"]


@each_row(
    ("pieces", "arguments"),
    [
        (('{"a"', ": 1}"), {"a": 1}),
        (("",), {}),
        ((), {}),
        (('{"a": "half',), {"INVALID_JSON": '{"a": "half'}),
        (("[1]",), {"INVALID_JSON": "[1]"}),
        (('{"a": NaN}',), {"INVALID_JSON": '{"a": NaN}'}),
        (('{"a": [1e999]}',), {"INVALID_JSON": '{"a": [1e999]}'}),
        (('{"a": "\\ud800"}',), {"INVALID_JSON": '{"a": "\\ud800"}'}),
        (('{"a": "\\ud83d', '\\ude00"}'), {"a": "😀"}),
        # No JSON, but plain: nothing validates an input that is sent while it is written.
        (('{"a": "x\n', '\ty"}'), {"a": "x\n\ty"}),
    ],
)
def test_tool_arguments_are_parsed_at_the_end_of_their_block(
    pieces: tuple[str, ...], arguments: Json
) -> None:
    """Anything but a serializable JSON object is kept as text for the model."""
    assert tool_input(*pieces) == arguments


@pytest.mark.parametrize("depth", [100, 700, 3_000])
def test_deeply_nested_tool_arguments_are_kept_as_text(depth: int) -> None:
    """Parsing, recording and sending a repetitive model's output recurse into the nesting."""
    deep = f'{{"a": {"[" * depth}{"]" * depth}}}'
    deepest = f'{{"a": {"[" * 99}{"]" * 99}}}'

    assert tool_input(deep) == {"INVALID_JSON": deep}
    assert tool_input(deep[: 6 + depth]) == {"INVALID_JSON": deep[: 6 + depth]}
    assert tool_input(deepest) == json.loads(deepest)


@each_row("written", REAL_INPUTS)
def test_no_truncation_of_a_real_input_reaches_a_tool(written: str) -> None:
    """Cut at each character, as streams break; only nothing at all counts as no arguments."""
    tool = replace(LOOK, parameters={"type": "object"})

    for length in range(1, len(written)):
        arguments = tool_input(written[:length])
        with pytest.raises(ToolError, match=r"^Not run: the input of look is not a JSON object"):
            check_input(tool, arguments)
    assert check_input(tool, tool_input(written)) == json.loads(written)


def test_tool_arguments_in_the_block_start_are_kept() -> None:
    assert tool_input(given={"a": 1}) == {"a": 1}


@each_row(
    ("given", "arguments"),
    [
        ('{"a": 1}', {"a": 1}),
        ("", {}),
        (None, {}),
        ([1], {"INVALID_JSON": "[1]"}),
        ("half", {"INVALID_JSON": "half"}),
        ({"a": math.inf}, {"INVALID_JSON": '{"a": Infinity}'}),
    ],
)
def test_whole_tool_arguments_become_an_object(given: Json, arguments: Json) -> None:
    """Some servers send them as text, or null for none; the API takes nothing else back."""
    block: Block = {"type": "tool_use", "id": "t", "name": "n", "input": given}

    assert reply_of(block, []).content[0]["input"] == arguments


def test_empty_piece_leaves_whole_tool_arguments_unchanged() -> None:
    assert tool_input("", given={"a": 1}) == {"a": 1}


def test_incomplete_tool_call_gets_an_empty_name_and_no_arguments() -> None:
    """The rest of the program relies on both."""
    (block,) = reply_of({"type": "tool_use", "id": 7}, []).content

    assert block == {"type": "tool_use", "id": "7", "name": "", "input": {}}


def test_tool_call_without_an_id_gets_a_generated_id() -> None:
    """Some servers leave the id empty, and the result must refer to one."""
    builder = built(START)
    block: Payload = {"type": "tool_use", "id": "", "name": "n", "input": {}}
    (event,) = builder.feed({"type": "content_block_start", "index": 0, "content_block": block})

    assert isinstance(event, ToolCallStart)
    assert event.id.startswith("toolu_")


def test_citation_and_compaction_deltas_are_collected() -> None:
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


def test_usage_at_the_end_replaces_usage_at_the_start() -> None:
    """The figures are cumulative; null means unchanged. Cache writes are split by lifetime."""
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


@pytest.mark.parametrize(
    "more", [{}, {"cache_creation": {}}, {"cache_creation": {"ephemeral_5m_input_tokens": 0}}]
)
def test_cache_writes_without_a_split_count_as_five_minute_writes(more: Payload) -> None:
    """Older and compatible servers give one figure, gateways empty parts beside it."""
    usage: Payload = {"cache_creation_input_tokens": 30, **more}

    found = built(START, {**END, "usage": usage}, STOP).reply()

    assert (found.usage.cache_write_5m_tokens, found.usage.cache_write_1h_tokens) == (30, 0)


def test_blocks_are_ordered_by_index() -> None:
    """Blocks may overlap in the stream."""
    builder = built(START)
    for index in (1, 0):
        block: Payload = {"type": "text", "text": str(index)}
        list(builder.feed({"type": "content_block_start", "index": index, "content_block": block}))
    for index in (1, 0):
        list(builder.feed({"type": "content_block_stop", "index": index}))
    for event in (END, STOP):
        list(builder.feed(event))

    assert [block["text"] for block in builder.reply().content] == ["0", "1"]


def test_block_without_an_end_event_ends_with_the_reply() -> None:
    """Some servers never send this event."""
    block: Payload = {"type": "text", "text": "said"}
    start = {"type": "content_block_start", "index": 0, "content_block": block}

    assert built(START, start, END, STOP).reply().content == (block,)


@pytest.mark.parametrize("end", [(), (END,), (STOP,)])
def test_reply_is_complete_with_a_stop_reason_and_message_stop(end: tuple[Payload, ...]) -> None:
    assert not built(START, *end).complete
    assert built(START, END, STOP).complete


@each_row(
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
def test_inconsistent_event_raises_broken_reply(event: Payload) -> None:
    with pytest.raises(BrokenReply):
        built(START, event)
