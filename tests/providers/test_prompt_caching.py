"""A session of many turns against a server that simulates the cache and checks signed thinking."""

import json
from dataclasses import replace
from itertools import pairwise

import pytest

from agent_cli.contracts.messages import (
    AssistantMessage,
    LlmMessage,
    ToolResultMessage,
    UserMessage,
)
from agent_cli.contracts.provider import ModelRequest, Reply
from agent_cli.contracts.timeline import Json, text_block
from agent_cli.contracts.tooling import ToolSpec
from agent_cli.providers.anthropic.wire import parameters
from tests.messages_api import Answer, FakeMessagesApi, reply, thinking, tool_use
from tests.messages_api.prompt_cache import without_markers
from tests.messages_api.script import Payload
from tests.providers.asking import asker, request

TURNS = 20
SYSTEM = ("You are a coding agent. " * 60, "The workspace is /project.")
TOOLS = tuple(ToolSpec(f"tool_{n}", "Does it. " * 9, {"type": "object"}) for n in range(6))


def turn(number: int, calls: int) -> Answer:
    """Return a reply with thinking, text and *calls* tool calls."""
    uses = [tool_use("tool_1", {"n": n}, id=f"t{number}_{n}") for n in range(calls)]
    return reply(thinking(f"step {number}, then the next"), f"Now step {number}.", *uses)


def answers_to(said: Reply) -> list[LlmMessage]:
    """Return *said* as a message with a result for each of its calls."""
    message = AssistantMessage(said.content, said.stop_reason)
    results = [
        ToolResultMessage(str(call["id"]), "tool_1", (text_block("line\n" * 40),))
        for call in message.tool_calls
    ]
    return [message, *results]


async def session(api: FakeMessagesApi) -> list[Reply]:
    """Play TURNS turns, each with the history so far."""
    history: list[LlmMessage] = [UserMessage.of("Fix the bug. " * 20)]
    replies: list[Reply] = []
    async with asker(api) as it:
        for _ in range(TURNS):
            asked = await it.ask(request(*history, system=SYSTEM, tools=TOOLS))
            replies.append(asked.reply)
            history += answers_to(asked.reply)
    return replies


def prompt(body: Payload) -> str:
    """Return the prompt in cache order, without markers and closing brackets."""
    parts = [*body["tools"], *body["system"], *body["messages"]]
    return "".join(json.dumps(without_markers(part)) for part in parts)


@pytest.mark.parametrize("calls", [1, 3, 25], ids=["one call", "three calls", "25 calls"])
async def test_next_turn_reads_the_last_request_from_the_prompt_cache(calls: int) -> None:
    """At least 95 % is read, even if one turn adds more blocks than a marker looks back."""
    script = [turn(number, calls) for number in range(TURNS)]
    async with FakeMessagesApi(*script) as api:
        replies = await session(api)

    assert api.refusals == []
    for before, after in pairwise(replies):
        assert after.usage.cache_read_tokens >= 0.95 * before.usage.prompt_tokens
        assert after.usage.input_tokens == 0
    assert replies[0].usage.cache_write_1h_tokens > 300


async def test_each_request_begins_with_the_bytes_of_the_previous_one() -> None:
    """The serialised prompt of turn n is a prefix of that of turn n+1, minus cache markers."""
    async with FakeMessagesApi(*[turn(number, 2) for number in range(TURNS)]) as api:
        await session(api)

    prompts = [prompt(got.body) for got in api.requests]
    assert len(prompts) == TURNS
    for before, after in pairwise(prompts):
        assert after.startswith(before)
        assert len(after) > len(before)


async def test_roles_alternate_in_every_request() -> None:
    """S1-31: user first and last, whatever the turns add; steering joins the tool results."""
    history: list[LlmMessage] = [UserMessage.of("one"), UserMessage.of("two")]
    async with FakeMessagesApi(turn(0, 2), reply("done")) as api, asker(api) as it:
        asked = await it.ask(request(*history))
        history += [*answers_to(asked.reply), UserMessage.of("and hurry")]
        await it.ask(request(*history))

    roles = [[message["role"] for message in got.body["messages"]] for got in api.requests]
    assert roles == [["user"], ["user", "assistant", "user"]]
    assert api.refusals == []


async def test_thinking_is_replayed_exactly_as_received() -> None:
    """The server checks signatures, order and prefix (R27, R28, R30) and drops nothing."""
    async with FakeMessagesApi(*[turn(number, 2) for number in range(TURNS)]) as api:
        replies = await session(api)

    assert api.refusals == []
    assert api.dropped_thinking == []
    sent = [m["content"] for m in api.requests[-1].body["messages"] if m["role"] == "assistant"]
    assert sent == [list(said.content) for said in replies[:-1]]


def test_at_most_four_cache_markers_are_sent_and_none_on_thinking() -> None:
    """The API refuses a fifth marker, and any on a thinking block."""
    history: list[LlmMessage] = [UserMessage.of("hi")]
    for number in range(TURNS):
        block: dict[str, Json] = dict(thinking(f"{number}"))
        history += [AssistantMessage((block, text_block("ok"))), UserMessage.of("go on")]
    asked: ModelRequest = request(*history, system=(*SYSTEM, "It is Monday."), tools=TOOLS)

    sent = json.loads(json.dumps(parameters(asked, compat=False)))

    marked = [
        block
        for message in sent["messages"]
        for block in message["content"]
        if "cache_control" in block
    ]
    assert json.dumps(sent).count('"cache_control"') == 4
    assert [block["type"] for block in marked] == ["text"]


async def test_next_session_reads_the_instructions_of_the_last_one_from_the_cache() -> None:
    """Only date and git's state differ between two sessions of a workspace, and stand last."""
    instructions = "Use the helper. " * 300
    async with FakeMessagesApi(reply("one"), reply("two")) as api, asker(api) as it:
        replies = [
            (
                await it.ask(
                    request(
                        UserMessage.of(f"Task {number}"),
                        system=(*SYSTEM, instructions, f"{number} changed files"),
                        tools=TOOLS,
                    )
                )
            ).reply
            for number in range(2)
        ]

    first, second = (each.usage for each in replies)
    assert first.cache_read_tokens == 0
    assert second.cache_read_tokens > len(instructions) // 8
    assert second.cache_write_tokens < 50


def test_messages_that_nothing_will_read_again_are_not_cached() -> None:
    """A cache write costs a quarter more; what stands before the messages may be read again."""
    history = (UserMessage.of("hi"), AssistantMessage((text_block("ok"),)), UserMessage.of("go on"))
    asked = replace(request(*history, system=SYSTEM, tools=TOOLS), stands_alone=True)

    sent = parameters(asked, compat=False)

    assert json.dumps(sent).count('"cache_control"') == 1
    assert "cache_control" in json.dumps(sent["system"])
