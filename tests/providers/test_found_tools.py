"""Tools found in a conversation cost no cached token, whatever the server can."""

import json
from dataclasses import replace
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from agent_cli.contracts.found_tools import CALL_FOUND, reference_to
from agent_cli.contracts.messages import (
    AssistantMessage,
    LlmMessage,
    ToolResultMessage,
    UserMessage,
)
from agent_cli.contracts.timeline import Block, Json, text_block
from agent_cli.contracts.tooling import INVALID_JSON, ToolSpec
from agent_cli.providers.anthropic.wire import parameters
from agent_cli.providers.found_tools import true_call
from tests.messages_api import FakeMessagesApi, error, reply
from tests.messages_api.prompt_cache import segments_of
from tests.providers.asking import asker, request
from tests.tables import each_row

FINDER = ToolSpec("find", "Find tools", {"type": "object"}, finds_tools=True)
READ = ToolSpec("read", "Read", {"type": "object"})
FOUND = tuple(
    ToolSpec(f"mcp__s__{n}", f"Do {n}", {"type": "object", "properties": {}}, is_deferred=True)
    for n in range(4)
)


def use(name: str, call_id: str, **given: Json) -> AssistantMessage:
    return AssistantMessage(
        ({"type": "tool_use", "id": call_id, "name": name, "input": given},), "tool_use"
    )


def found(call_id: str, *specs: ToolSpec) -> ToolResultMessage:
    blocks = (text_block("These:"), *map(reference_to, specs))
    return ToolResultMessage(call_id, "find", blocks)


SEARCHED: tuple[LlmMessage, ...] = (
    UserMessage.of("hi"),
    use("find", "t1", query="do"),
    found("t1", FOUND[1]),
    use("mcp__s__1", "t2", a=1),
    ToolResultMessage("t2", "mcp__s__1", (text_block("done"),)),
)


async def body(*messages: LlmMessage, model: str = "claude-sonnet-5-5") -> dict[str, Any]:
    async with FakeMessagesApi(reply("ok")) as api, asker(api) as it:
        asked = await it.ask(request(*messages, model=model, tools=(FINDER, READ, *FOUND[:2])))
    assert (api.refusals, asked.error) == ([], None)
    return api.requests[0].body


async def test_found_tool_is_loaded_by_a_reference_where_the_api_can() -> None:
    """Alone in its result, as the API wants it, with a text behind it, and deferred in the list."""
    sent = await body(*SEARCHED)

    assert [(tool["name"], tool.get("defer_loading", False)) for tool in sent["tools"]] == [
        ("find", False),
        ("read", False),
        ("placeholder_of_found_tools", True),
        ("mcp__s__1", True),
    ]
    result, loaded = sent["messages"][2]["content"]
    assert result["content"] == [{"type": "tool_reference", "tool_name": "mcp__s__1"}]
    assert loaded["text"] == "The tools are loaded."
    assert sent["messages"][3]["content"][0]["name"] == "mcp__s__1"


async def test_found_tool_is_called_by_one_that_never_changes_elsewhere() -> None:
    sent = await body(*SEARCHED, model="claude-2")

    assert [tool["name"] for tool in sent["tools"]] == ["find", "read", CALL_FOUND]
    [result] = sent["messages"][2]["content"]
    said, definition = result["content"][0]["text"].split("\n")
    assert said == f"Call these with {CALL_FOUND}:"
    assert json.loads(definition)["description"] == "Do 1"
    call = sent["messages"][3]["content"][0]
    assert (call["name"], call["input"]) == (CALL_FOUND, {"name": "mcp__s__1", "input": {"a": 1}})


@each_row(
    ("written", "name", "given"),
    [
        ({"name": "mcp__s__1", "input": {"a": 1}}, "mcp__s__1", {"a": 1}),
        ({"name": "mcp__s__1", "input": '{"a": 1}'}, "mcp__s__1", {"a": 1}),
        ({"name": "mcp__s__1", "input": "{oops"}, "mcp__s__1", {INVALID_JSON: "{oops"}),
        ({"name": "mcp__s__1"}, "mcp__s__1", {}),
        ({"input": {}}, CALL_FOUND, {"input": {}}),
    ],
)
def test_call_of_a_found_tool_is_one_for_permissions_hooks_and_the_record(
    written: Json, name: str, given: Json
) -> None:
    block: Block = {"type": "tool_use", "id": "t", "name": CALL_FOUND, "input": written}
    call = true_call(block)

    assert (call["name"], call["input"]) == (name, given)


async def test_server_that_refuses_references_gets_the_other_form() -> None:
    refusal = error(400, "invalid_request_error", "tools.2.custom.defer_loading: not permitted")
    async with FakeMessagesApi(refusal, reply("ok")) as api, asker(api) as it:
        asked = await it.ask(request(*SEARCHED, tools=(FINDER, *FOUND)))

    assert asked.text == "ok"
    assert [each["name"] for each in api.requests[1].body["tools"]] == ["find", CALL_FOUND]


async def test_found_tool_that_the_api_refuses_leaves_no_reference() -> None:
    """A reference without its definition would make every later request fail."""
    refusal = error(400, "invalid_request_error", "tools.2.custom.input_schema: is invalid")
    async with FakeMessagesApi(refusal, reply("ok")) as api, asker(api) as it:
        asked = await it.ask(request(*SEARCHED, tools=(FINDER, *FOUND)))

    assert (asked.text, api.refusals) == ("ok", [])
    assert "tool_reference" not in str(api.requests[1].body)


TURNS = st.lists(
    st.one_of(
        st.lists(st.sampled_from(range(4)), min_size=1, max_size=3, unique=True),  # a search
        st.sampled_from(range(4)),  # a call
        st.text(min_size=1, max_size=5).filter(str.strip),  # the user
    ),
    max_size=8,
)


@given(turns=TURNS, model=st.sampled_from(["claude-sonnet-5-5", "claude-haiku-4-5", "other"]))
def test_find_changes_no_earlier_byte_of_a_request(turns: list[Any], model: str) -> None:
    """What the model reads before the newest messages, its tools included, stays as it was."""
    history: list[LlmMessage] = [UserMessage.of("begin")]
    known: set[int] = set()
    before: list[bytes] = []
    for at, turn in enumerate([*turns, "end"]):
        call_id = f"t{at}"
        offered = (FINDER, READ, *(FOUND[n] for n in sorted(known)))
        asked = replace(request(*history, model=model), system=("S",), tools=offered)
        sent = parameters(asked, compat=model == "other")
        now = [segment.content for segment in segments_of(sent)]
        assert now[: len(before)] == before
        assert len(now) > len(before)
        before = now
        match turn:
            case list():
                known |= {*turn}
                specs = [FOUND[n] for n in turn]
                history += [use("find", call_id, query="q"), found(call_id, *specs)]
            case int():
                name = FOUND[turn].name
                result = ToolResultMessage(call_id, name, (text_block("done"),))
                history += [use(name, call_id, a=at), result]
            case _:
                history += [AssistantMessage((text_block("ok"),)), UserMessage.of(turn)]


ANNOUNCED = ToolSpec(CALL_FOUND, "", {"type": "object"})


def added(*specs: ToolSpec) -> UserMessage:
    return UserMessage.of("More tools:", [*map(reference_to, specs)], author="mcp")


async def test_tool_that_comes_late_is_added_behind_the_users_turn_where_the_api_can() -> None:
    """The header goes with the first request: a server refuses it before it caches anything."""
    begun = (UserMessage.of("hi"),)
    tools = (READ, ANNOUNCED)
    async with FakeMessagesApi(reply("ok"), reply("ok")) as api, asker(api) as it:
        await it.ask(request(*begun, tools=tools))
        await it.ask(request(*begun, added(FOUND[1]), tools=(*tools, FOUND[1])))

    first, second = api.requests
    assert api.refusals == []
    assert "inline-tools-2026-09-15" in first.headers["anthropic-beta"]
    assert first.body["tools"] == second.body["tools"]
    said, system = second.body["messages"]
    assert [each["text"] for each in said["content"]] == ["hi", "More tools:"]
    assert (system["role"], [each["tool"]["type"] for each in system["content"]]) == (
        "system",
        ["tool_definition"],
    )
    assert system["content"][0]["tool"]["definition"]["name"] == "mcp__s__1"


async def test_server_that_refuses_additions_gets_them_as_text() -> None:
    refusal = error(400, "invalid_request_error", "Unexpected value(s) `inline-tools-2026-09-15`")
    sent = (UserMessage.of("hi"), added(FOUND[1]))
    async with FakeMessagesApi(refusal, reply("ok")) as api, asker(api) as it:
        asked = await it.ask(request(*sent, tools=(READ, ANNOUNCED, FOUND[1])))

    again = api.requests[1].body
    assert (asked.text, api.refusals) == ("ok", [])
    assert [each["name"] for each in again["tools"]] == ["read", CALL_FOUND]
    assert again["messages"][0]["content"][-1]["text"].startswith(f"Call these with {CALL_FOUND}:")


def test_tool_that_is_declared_again_is_added_by_no_message() -> None:
    """A name may stand for one tool only; a session that goes on elsewhere may declare it."""
    declared = replace(FOUND[1], is_deferred=False)
    asked = request(added(FOUND[1]), tools=(declared,))
    [message] = cast("list[Block]", parameters(asked, compat=False)["messages"])

    assert message["content"] == [text_block("More tools:")]


LATE = st.lists(st.sampled_from([0, 1, 2, 3, "call", "say"]), max_size=8)


@given(turns=LATE, model=st.sampled_from(["claude-sonnet-5-5", "claude-haiku-4-5", "other"]))
def test_tool_that_comes_late_changes_no_earlier_byte(turns: list[Any], model: str) -> None:
    history: list[LlmMessage] = [UserMessage.of("begin")]
    known: list[int] = []
    before: list[bytes] = []
    for at, turn in enumerate([*turns, "end"]):
        offered = (READ, ANNOUNCED, *(FOUND[n] for n in known))
        asked = replace(request(*history, model=model), system=("S",), tools=offered)
        sent = parameters(asked, compat=model == "other")
        now = [segment.content for segment in segments_of(sent)]
        assert now[: len(before)] == before
        assert len(now) > len(before)
        before = now
        if turn == "call":
            name, call_id = (FOUND[known[-1]] if known else READ).name, f"t{at}"
            result = ToolResultMessage(call_id, name, (text_block("done"),))
            history += [use(name, call_id, a=at), result]
        else:
            history += [AssistantMessage((text_block("ok"),)), UserMessage.of("next")]
        if isinstance(turn, int) and turn not in known:
            known.append(turn)
            history.append(added(FOUND[turn]))
