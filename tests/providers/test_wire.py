"""The body and headers of a request, as the server received them."""

import json
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent_cli.contracts.authors import NOTICE
from agent_cli.contracts.errors import ModelError
from agent_cli.contracts.found_tools import (
    CALL_FOUND,
    change_of,
    reference_to,
    reference_to_hosted,
)
from agent_cli.contracts.messages import (
    AssistantMessage,
    LlmMessage,
    SignedSummary,
    ToolResultMessage,
    UserMessage,
)
from agent_cli.contracts.options import ThinkingLevel
from agent_cli.contracts.provider import Model
from agent_cli.contracts.timeline import Block, Json, text_block
from agent_cli.contracts.tooling import ToolSpec
from agent_cli.providers.anthropic.betas import TASK_BUDGETS, THINKING_BINDING
from agent_cli.providers.anthropic.models import model_by_id, model_table, thinking_parameters
from agent_cli.providers.anthropic.wire import parameters
from agent_cli.providers.anthropic.wire_parts import Translated
from agent_cli.system.shapes import objects_in
from tests.messages_api import Answer, FakeMessagesApi, ReceivedRequest, error, reply, search
from tests.providers.asking import asker, request
from tests.tables import each_row

CALL: dict[str, Json] = {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a"}}
READ = ToolSpec("read", "Read a file", {"type": "object", "properties": {}})
HOUR = {"type": "ephemeral", "ttl": "1h"}
SHORT = {"type": "ephemeral"}


async def sent(*messages: Any, **options: Any) -> ReceivedRequest:
    """Return the request as the server got it, without refusals."""
    async with FakeMessagesApi(reply("ok")) as api, asker(api) as it:
        asked = await it.ask(request(*messages, **options))

    assert (api.refusals, asked.error) == ([], None)
    return api.requests[0]


async def test_request_body_has_system_history_and_tools_and_streams() -> None:
    """S1-18, S1-45: always streaming; the whole body, so that nothing is added unnoticed."""
    got = await sent(
        UserMessage.of("hi"),
        AssistantMessage((CALL,), "tool_use"),
        ToolResultMessage("t1", "read", (text_block("content"),), details={"secret": 1}),
        system=("be brief", "today is Monday"),
        tools=(READ,),
        session_id="session-1",
        max_tokens=500,
    )

    result = {"type": "tool_result", "tool_use_id": "t1", "content": [text_block("content")]}
    assert got.body == {
        "model": "claude-sonnet-5-5",
        "max_tokens": 500,
        "system": [
            {**text_block("be brief"), "cache_control": HOUR},
            text_block("today is Monday"),
        ],
        "tools": [
            {"name": "read", "description": "Read a file", "input_schema": READ.input_schema}
        ],
        "messages": [
            {"role": "user", "content": [{**text_block("hi"), "cache_control": SHORT}]},
            {"role": "assistant", "content": [CALL]},
            {"role": "user", "content": [result]},
        ],
        "cache_control": SHORT,
        "diagnostics": {"previous_message_id": None},
        "metadata": {"user_id": "session-1"},
        "stream": True,
        "thinking": {
            "type": "adaptive",
            "display": "summarized",
            "block_binding": {"prefix_mismatch_behavior": "drop_block"},
        },
    }
    assert got.headers["anthropic-beta"] == THINKING_BINDING.header


async def test_only_own_tools_with_long_inputs_ask_for_them_while_they_are_written() -> None:
    """An MCP server may rely on the API's check of each value; the API's own tools refuse it."""
    names = ("read", "write", "mcp__s__write", "edit", "bash")
    tools = tuple(replace(READ, name=name) for name in names)
    got = await sent(tools=tools)

    marked = [each["name"] for each in got.body["tools"] if each.get("eager_input_streaming")]
    assert marked == ["write", "edit", "bash"]


async def test_options_that_are_not_set_are_not_sent() -> None:
    """S0-25, C20: no temperature, no session, no empty field."""
    got = await sent()

    assert not {"temperature", "metadata", "system", "tools", "output_config"} & set(got.body)


async def test_temperature_is_sent_if_set() -> None:
    """S0-25, C20: the SDK no longer has a parameter for it, but compatible servers do."""
    async with FakeMessagesApi() as api, asker(api) as it:
        await it.ask(request(temperature=0.5))

    assert api.requests[0].body["temperature"] == 0.5


async def test_max_tokens_is_limited_to_what_the_model_can_write() -> None:
    """The API would refuse a higher number with status 400."""
    got = await sent(max_tokens=1_000_000, model="claude-haiku-4-5")

    assert got.body["max_tokens"] == 64_000


async def test_one_hour_cache_marker_is_on_the_tools_without_a_system_prompt() -> None:
    got = await sent(tools=(READ,))

    assert got.body["tools"][0]["cache_control"] == HOUR


async def test_session_id_is_the_same_in_all_retries() -> None:
    """S0-27: each attempt names its session."""
    async with FakeMessagesApi(answer=_always_overloaded) as api, asker(api) as it:
        await it.ask(request(session_id="s1"))

    assert [got.body["metadata"] for got in api.requests] == [{"user_id": "s1"}] * 6


def _always_overloaded(_got: ReceivedRequest) -> Answer:
    return error(529, "overloaded_error", "busy")


ADAPTIVE = {"type": "adaptive", "display": "summarized"}
LEVELS: list[tuple[str, ThinkingLevel | None, dict[str, Any] | str]] = [
    ("claude-sonnet-5", None, {"thinking": ADAPTIVE}),
    ("claude-sonnet-5", "off", {"thinking": {"type": "disabled"}}),
    ("claude-sonnet-5", "minimal", {"thinking": ADAPTIVE, "output_config": {"effort": "low"}}),
    ("claude-sonnet-5", "low", {"thinking": ADAPTIVE, "output_config": {"effort": "low"}}),
    ("claude-sonnet-5", "medium", {"thinking": ADAPTIVE, "output_config": {"effort": "medium"}}),
    ("claude-sonnet-5", "high", {"thinking": ADAPTIVE, "output_config": {"effort": "high"}}),
    ("claude-sonnet-5", "xhigh", {"thinking": ADAPTIVE, "output_config": {"effort": "xhigh"}}),
    ("claude-sonnet-5-5", "off", {"thinking": {"type": "between_tools"}}),
    ("claude-opus-5-5", "off", "claude-opus-5-5 cannot switch thinking off; choose minimal"),
    ("claude-sonnet-4-6", "xhigh", "claude-sonnet-4-6 has no thinking level xhigh; choose one of"),
    ("claude-haiku-4-5", None, {}),
    ("claude-haiku-4-5", "off", {"thinking": {"type": "disabled"}}),
    ("claude-haiku-4-5", "minimal", {"thinking": {"type": "enabled", "budget_tokens": 1024}}),
    ("claude-haiku-4-5", "low", {"thinking": {"type": "enabled", "budget_tokens": 4096}}),
    ("claude-haiku-4-5", "medium", {"thinking": {"type": "enabled", "budget_tokens": 10_000}}),
    ("claude-haiku-4-5", "high", {"thinking": {"type": "enabled", "budget_tokens": 20_000}}),
    # Of max_tokens, 32,000 here, thinking leaves room for the answer.
    ("claude-haiku-4-5", "xhigh", {"thinking": {"type": "enabled", "budget_tokens": 24_000}}),
    ("somebody-elses", None, {}),
    ("somebody-elses", "off", {}),
    ("somebody-elses", None, {}),
    ("somebody-elses", "off", {}),
    ("somebody-elses", "high", {}),
]


@each_row(("model", "level", "expected"), LEVELS)
async def test_each_thinking_level_is_sent_or_refused(
    model: str, level: ThinkingLevel | None, expected: dict[str, Any] | str
) -> None:
    """S3-09: all six levels; each becomes request fields or a clear "the model cannot"."""
    async with FakeMessagesApi(reply("ok")) as api, asker(api) as it:
        asked = await it.ask(request(model=model, thinking_level=level))

    if isinstance(expected, str):
        assert str(asked.error).startswith(expected)
        assert api.requests == []
    else:
        body = api.requests[0].body
        found = {key: body[key] for key in ("thinking", "output_config") if key in body}
        assert (found, api.refusals) == (expected, [])


@pytest.mark.filterwarnings("ignore:The model 'claude-sonnet-4-5' is deprecated")
@pytest.mark.parametrize("model", sorted(model_table().models))
async def test_no_thinking_level_makes_an_invalid_request(model: str) -> None:
    """S3-09: whatever we know of a model, the API accepts it or we refuse first."""
    levels: list[ThinkingLevel | None] = ["off", "minimal", "low", "medium", "high", "xhigh", None]
    async with FakeMessagesApi(*[reply("ok")] * len(levels)) as api, asker(api) as it:
        asked = [await it.ask(request(model=model, thinking_level=level)) for level in levels]

    assert api.refusals == []
    assert len(api.requests) == sum(not each.error for each in asked)


async def test_thinking_budget_of_each_level_is_configurable() -> None:
    """S0-28: this concerns models with a thinking budget."""
    budgets = {"low": 3000, "high": 10, "xhigh": 50_000}
    low = await sent(model="claude-haiku-4-5", thinking_level="low", thinking_budgets=budgets)
    high = await sent(model="claude-haiku-4-5", thinking_level="high", thinking_budgets=budgets)
    most = await sent(model="claude-haiku-4-5", thinking_level="xhigh", thinking_budgets=budgets)

    assert low.body["thinking"]["budget_tokens"] == 3000
    assert high.body["thinking"]["budget_tokens"] == 1024
    assert most.body["thinking"]["budget_tokens"] == most.body["max_tokens"] - 1


def test_max_tokens_too_small_for_thinking_is_an_error() -> None:
    """The budget must be at least 1,024 and below max_tokens."""
    asked = request(model="claude-haiku-4-5", thinking_level="low", max_tokens=1000)

    with pytest.raises(ModelError, match="max_tokens 1000 leaves no room to think"):
        thinking_parameters(asked, compat=False)


def test_compatible_servers_get_thinking_only_if_a_level_is_set() -> None:
    unknown = request(model="local", thinking_level="low")

    assert thinking_parameters(request(), compat=True) == {}
    assert thinking_parameters(unknown, compat=True) == {
        "thinking": {"type": "enabled", "budget_tokens": 4096}
    }


def test_dated_model_id_has_the_facts_of_the_undated_one() -> None:
    dated = model_by_id("claude-haiku-4-5-20251001")

    assert dated.id == "claude-haiku-4-5-20251001"
    assert dated.thinking == model_by_id("claude-haiku-4-5").thinking


async def test_json_keys_keep_their_order_in_the_request() -> None:
    """A cached prefix is compared byte by byte."""
    arguments: dict[str, Json] = {"z": 1, "a": {"y": 1.0, "b": "é"}}
    call: dict[str, Json] = {**CALL, "input": arguments}
    result = ToolResultMessage("t1", "read", (text_block("x"),))
    got = await sent(UserMessage.of("hi"), AssistantMessage((call,), "tool_use"), result)

    written = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    assert written.encode() in got.raw


def test_model_created_from_its_id_is_sent_supported_thinking_only() -> None:
    """S3-09: this one refuses adaptive thinking and effort."""
    asked = replace(request(thinking_level="low"), model=Model("claude-haiku-4-5"))

    assert thinking_parameters(asked, compat=False) == {
        "thinking": {"type": "enabled", "budget_tokens": 4096}
    }


async def test_task_budget_is_sent_to_models_that_support_task_budgets() -> None:
    """Next to the effort, with its beta; a budget below the API's minimum is not sent."""
    with_effort = await sent(UserMessage.of("hi"), task_budget=50_000, thinking_level="low")
    least = await sent(UserMessage.of("hi"), task_budget=20_000)
    too_small = await sent(UserMessage.of("hi"), task_budget=19_999)
    without = await sent(UserMessage.of("hi"), task_budget=50_000, model="claude-sonnet-5")

    budget = {"type": "tokens", "total": 50_000}
    assert with_effort.body["output_config"] == {"effort": "low", "task_budget": budget}
    assert least.body["output_config"]["task_budget"] == {"type": "tokens", "total": 20_000}
    assert TASK_BUDGETS.header in with_effort.headers["anthropic-beta"]
    assert "output_config" not in too_small.body
    assert "output_config" not in without.body


_IMAGE: Block = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"},
}
_SIGNED: Block = {
    "type": "compaction",
    "tool_changes": [{"type": "tool_addition", "tool": {"name": "x"}}],
}
_LATE = ToolSpec("mcp__s__late", "", {"type": "object"}, is_deferred=True)
_SEARCH = (READ, ToolSpec("find_tools", "", {"type": "object"}, finds_tools=True))
_MORE_TOOLS = (READ, _LATE, ToolSpec(CALL_FOUND, "", {"type": "object"}))


def _replies(*blocks: Block, stop_reason: str = "end_turn") -> AssistantMessage:
    return AssistantMessage(_as_in_the_record(blocks), stop_reason)


def _results(*blocks: Block, call_id: str = "t1", is_error: bool = False) -> ToolResultMessage:
    return ToolResultMessage(call_id, "read", _as_in_the_record(blocks), is_error=is_error)


def _as_in_the_record(blocks: Sequence[Block]) -> tuple[Block, ...]:
    return UserMessage((*blocks,)).content


_USUAL_MESSAGES: list[LlmMessage] = [
    _replies(text_block("I look."), CALL, stop_reason="tool_use"),
    _replies(CALL, CALL, stop_reason="tool_use"),
    _results(text_block("one line")),
    _results(text_block("another")),
    UserMessage.of("hi"),
]
_UNUSUAL_MESSAGES: list[LlmMessage] = [
    UserMessage((text_block("harder"),), effort="high"),
    UserMessage((text_block("lighter"),), effort=""),
    UserMessage.of("[plan mode is on]", author=NOTICE),
    UserMessage.of("look", [_IMAGE]),
    UserMessage.of("More tools:", [reference_to(_LATE)], author="mcp"),
    UserMessage.of("No more:", [change_of("read", there=False)], author="mcp"),
    UserMessage.of("Not this one:", [change_of(_LATE.name, there=False)], author="mcp"),
    UserMessage.of("   "),
    UserMessage((text_block("The notes."),), signed=SignedSummary("claude-sonnet-5-5", _SIGNED)),
    _replies(text_block("")),
    _replies(text_block("half"), stop_reason="aborted"),
    _replies(text_block("wait "), stop_reason="pause_turn"),
    _replies({"type": "thinking", "thinking": "Hm"}),
    _replies(text_block("a"), {"type": "fallback", "model": "x"}, text_block("b")),
    _replies(*search("python", ("News", "https://docs.python.org"))),
    _replies({**CALL, "id": "no id!", "name": "no name!"}, stop_reason="tool_use"),
    _results(text_block("x"), call_id="no id!"),
    _results(_IMAGE, is_error=True),
    _results(reference_to(_LATE)),
    _results(reference_to_hosted("web_search")),
]
_USE, _RESULT, _USER = _USUAL_MESSAGES[0], _USUAL_MESSAGES[2], _USUAL_MESSAGES[4]
_HARDER, _SUMMARY, _UNDECLARED = _UNUSUAL_MESSAGES[0], _UNUSUAL_MESSAGES[8], _UNUSUAL_MESSAGES[15]
_ADDING, _CHANGING = _UNUSUAL_MESSAGES[4], _UNUSUAL_MESSAGES[5]
_ROUND = [_USE, _RESULT]
_FOUND = _results(reference_to(_LATE))
_histories = st.lists(
    st.one_of(
        st.sampled_from(_USUAL_MESSAGES),
        st.sampled_from(_USUAL_MESSAGES),
        st.sampled_from([*_USUAL_MESSAGES, *_UNUSUAL_MESSAGES]),
    ),
    min_size=1,
    max_size=14,
)
_tools = st.sampled_from([(), (READ,), _SEARCH, _MORE_TOOLS])


@settings(derandomize=True)
@given(
    one=_histories,
    other=_histories,
    first_tools=_tools,
    steps=st.lists(st.tuples(st.integers(1, 14), _tools, st.sampled_from([None, "low", "high"]))),
    compat=st.booleans(),
)
@example(
    one=[_HARDER, *_ROUND, *_ROUND, _HARDER, *_ROUND, *_ROUND],
    other=[],
    first_tools=(READ,),
    steps=[],
    compat=False,
)
@example(
    one=[_USER, *_ROUND, *_ROUND, _SUMMARY, *_ROUND],
    other=[],
    first_tools=(READ,),
    steps=[],
    compat=False,
)
@example(
    one=[_USER, _UNDECLARED, _RESULT, *_ROUND, _USE, _FOUND, *_ROUND],
    other=[],
    first_tools=(READ,),
    steps=[],
    compat=True,
)
@example(
    one=[_USER, *_ROUND, *_ROUND],
    other=[_USER, _USER, *_ROUND, *_ROUND],
    first_tools=(READ,),
    steps=[],
    compat=False,
)
def test_beginning_that_was_sent_before_changes_no_request(
    one: list[LlmMessage],
    other: list[LlmMessage],
    first_tools: tuple[ToolSpec, ...],
    steps: list[tuple[int, tuple[ToolSpec, ...], ThinkingLevel | None]],
    *,
    compat: bool,
) -> None:
    """What was made of earlier messages is made once; two conversations grow, and are rewound."""
    translated = Translated()
    growing = [(count, first_tools, None) for count in range(1, len(one) + 1)]
    for at, (count, tools, level) in enumerate([*growing, *steps]):
        history = other if other and at % 4 == 3 else one
        asked = request(*history[:count], tools=tools, thinking_level=level)
        asked = replace(asked, model=model_by_id("claude-opus-5-5")) if at % 7 == 5 else asked

        kept = parameters(asked, compat=compat, translated=translated)

        assert kept == parameters(asked, compat=compat)


@each_row(
    ("tools", "begun"),
    [
        ((READ,), [_USER]),
        (_MORE_TOOLS, [_USER]),
        (_MORE_TOOLS, [_ADDING]),
        (_MORE_TOOLS, [_CHANGING, *_ROUND]),
        (_SEARCH, [_USER]),
        (_SEARCH, [_USER, _USE, _FOUND, *_ROUND]),
    ],
)
def test_message_that_was_sent_before_is_the_same_object(
    tools: tuple[ToolSpec, ...], begun: list[LlmMessage]
) -> None:
    """The property test above compares nothing unless messages are kept."""
    translated = Translated()
    history = [*begun]
    sent_before: list[Json] = []
    for _ in range(4):
        history += _ROUND
        asked = request(*history, tools=tools)

        messages = parameters(asked, compat=False, translated=translated)["messages"]

        assert isinstance(messages, list)
        assert len(messages) > len(sent_before)
        kept = sent_before[:-3]  # all but two with a cache marker, and the end
        assert [a is b for a, b in zip(kept, messages, strict=False)] == [True] * len(kept)
        sent_before = messages


def test_message_that_a_program_may_change_is_made_anew() -> None:
    """A deep copy of the record may be changed, and the parts of its messages as well."""
    begun = UserMessage((text_block("The notes."),), signed=SignedSummary("claude-opus-5-5", {}))
    for first, is_kept in (
        (begun, True),
        (deepcopy(begun), False),
        (replace(begun, signed=deepcopy(begun.signed)), False),
    ):
        translated = Translated()
        history = [first, _USE, _RESULT, _replies(text_block("Done.")), _USER, _USE, _RESULT]
        sent = [
            parameters(request(*history[:count]), compat=True, translated=translated)["messages"]
            for count in (5, 7)
        ]

        assert (objects_in(sent[0])[0] is objects_in(sent[1])[0]) == is_kept


async def test_message_that_a_program_changes_in_place_is_sent_as_it_is_now() -> None:
    """Two requests with the same deep copy, changed in between, are two different ones."""
    first, *others = deepcopy([UserMessage.of("1"), _USE, _RESULT, _replies(text_block("Done."))])
    async with (
        FakeMessagesApi(answer=lambda _request: reply("ok")) as api,
        asker(api) as it,
    ):
        for number in range(1, 5):
            first.content[0]["text"] = str(number)
            await it.ask(request(first, *others, UserMessage.of("Go on.")))

    texts = [each.body["messages"][0]["content"][0]["text"] for each in api.requests]
    assert texts == ["1", "2", "3", "4"]
