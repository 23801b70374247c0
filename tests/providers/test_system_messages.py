"""Notices stand in the system's role where the model has it, and are the user's text elsewhere."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_cli.contracts.authors import NOTICE, PROGRAM
from agent_cli.contracts.found_tools import CALL_FOUND, change_of, reference_to
from agent_cli.contracts.messages import (
    AssistantMessage,
    LlmMessage,
    ToolResultMessage,
    UserMessage,
)
from agent_cli.contracts.timeline import text_block
from agent_cli.contracts.tooling import ToolSpec
from agent_cli.providers.anthropic.platforms import BEDROCK
from agent_cli.providers.anthropic.wire import parameters
from tests.messages_api import FakeMessagesApi, error, reply, tool_use
from tests.messages_api.prompt_cache import segments_of
from tests.providers.asking import asker, request
from tests.tables import each_row

LATE = ToolSpec("mcp__s__late", "", {"type": "object"}, is_deferred=True)
ANNOUNCED = ToolSpec(CALL_FOUND, "", {"type": "object"})


def notice(text: str = "[plan mode is on]") -> UserMessage:
    return UserMessage.of(text, author=NOTICE)


def answer(text: str = "yes") -> AssistantMessage:
    return AssistantMessage((text_block(text),))


async def sent(*messages: LlmMessage, **options: Any) -> list[tuple[str, list[str]]]:
    """Return the messages that an API without a refusal received: role, and texts or types."""
    async with FakeMessagesApi(reply("ok")) as api, asker(api) as it:
        asked = await it.ask(request(*messages, **options))
    assert (api.refusals, asked.error) == ([], None)
    return seen(api.requests[0].body)


def seen(body: dict[str, Any]) -> list[tuple[str, list[str]]]:
    return [
        (each["role"], [str(block.get("text", block["type"])) for block in each["content"]])
        for each in body["messages"]
    ]


async def test_notice_stands_behind_the_users_turn_in_the_systems_role() -> None:
    """Behind all of it: the API takes it nowhere else."""
    said = (UserMessage.of("hi"), notice(), UserMessage.of("and"))

    assert await sent(*said) == [("user", ["hi", "and"]), ("system", ["[plan mode is on]"])]


async def test_notice_behind_results_of_tools_follows_them() -> None:
    call = AssistantMessage((tool_use("read", {}, id="t1"),), "tool_use")
    result = ToolResultMessage("t1", "read", (text_block("text"),))
    tools = (ToolSpec("read", "", {"type": "object"}),)
    turns = await sent(UserMessage.of("hi"), call, result, notice(), tools=tools)

    assert turns[2:] == [("user", ["tool_result"]), ("system", ["[plan mode is on]"])]


@each_row(
    ("options", "where"),
    [
        ({"model": "claude-sonnet-5"}, {}),
        ({"model": "claude-haiku-4-5"}, {}),
        ({"model": "unknown"}, {}),
        ({}, {"compat": True}),
        ({}, {"platform": BEDROCK}),
    ],
)
def test_other_models_and_servers_read_it_as_text_in_its_place(
    options: dict[str, Any], where: dict[str, Any]
) -> None:
    asked = request(UserMessage.of("hi"), notice(), UserMessage.of("and"), **options)

    where = {"compat": False, **where}
    body: Any = parameters(asked, **where)

    assert seen(body) == [("user", ["hi", "[plan mode is on]", "and"])]


async def test_notice_alone_in_its_turn_is_text_of_the_user() -> None:
    """There is nothing of the user's for it to follow."""
    said = (UserMessage.of("hi"), answer(), notice())

    assert (await sent(*said))[2:] == [("user", ["[plan mode is on]"])]


async def test_other_words_of_the_program_stay_in_their_place() -> None:
    """A summary, or the word that a reply was interrupted, is part of what was said."""
    said = (UserMessage.of("hi"), UserMessage.of("[Summary]", author=PROGRAM), UserMessage.of("on"))

    assert await sent(*said) == [("user", ["hi", "[Summary]", "on"])]


async def test_notice_addition_and_effort_are_one_message() -> None:
    """Two messages of the system's in a row are refused."""
    added = UserMessage.of("More tools:", [reference_to(LATE)], author="mcp")
    said = (UserMessage.of("hi"), notice(), added, replace(notice("[b]"), effort="high"))
    tools = (ToolSpec("read", "", {"type": "object"}), ANNOUNCED, LATE)
    async with FakeMessagesApi(reply("ok")) as api, asker(api) as it:
        await it.ask(request(*said, tools=tools, thinking_level="high"))

    assert api.refusals == []
    body = api.requests[0].body
    assert seen(body) == [
        ("user", ["hi", "More tools:"]),
        ("system", ["[plan mode is on]", "[b]", "tool_addition"]),
    ]
    assert body["messages"][1]["output_config"] == {"effort": "high"}


async def test_refused_role_is_off_for_the_session_and_the_text_the_users(
    caplog: pytest.LogCaptureFixture,
) -> None:
    said = "messages.1.role: Input should be 'user' or 'assistant'"
    refusal = error(400, "invalid_request_error", said)
    asked = request(UserMessage.of("hi"), notice())
    async with FakeMessagesApi(refusal, reply("ok"), reply("ok")) as api, asker(api) as it:
        for _ in range(2):
            assert (await it.ask(asked)).text == "ok"

    roles = [[role for role, _ in seen(each.body)] for each in api.requests]
    assert roles == [["user", "system"], ["user"], ["user"]]
    assert seen(api.requests[2].body) == [("user", ["hi", "[plan mode is on]"])]
    assert caplog.text.count("beta off") == 1


def withdraws(*, there: bool) -> UserMessage:
    return UserMessage.of("[tools changed]", [change_of("mcp__s__old", there=there)], author="mcp")


OLD = ToolSpec("mcp__s__old", "", {"type": "object"})
GOING = (UserMessage.of("hi"), withdraws(there=False), answer(), withdraws(there=True), answer())


@pytest.mark.parametrize("others", [(ANNOUNCED,), ()], ids=["announced", "alone"])
async def test_tool_of_a_server_that_went_away_is_withdrawn_and_offered_again(
    others: tuple[ToolSpec, ...],
) -> None:
    """It stays among the tools: without it the model would read everything anew."""
    back = (*GOING, UserMessage.of("go on"))
    async with FakeMessagesApi(reply("ok")) as api, asker(api) as it:
        await it.ask(request(*back, tools=(OLD, *others)))

    assert api.refusals == []
    assert [role for role, _ in seen(api.requests[0].body)] == [
        *("user", "system", "assistant", "user", "system", "assistant", "user")
    ]
    assert seen(api.requests[0].body)[1] == ("system", ["tool_removal"])
    assert seen(api.requests[0].body)[4] == ("system", ["tool_addition"])
    assert "mcp__s__old" in str(api.requests[0].body["tools"])


@pytest.mark.parametrize(
    "tools", [(), (ToolSpec("read", "", {"type": "object"}),)], ids=["none", "another"]
)
async def test_withdrawal_of_a_tool_that_no_request_declares_is_text_alone(
    tools: tuple[ToolSpec, ...],
) -> None:
    """After a resume the server may not be there at all; a reference to nothing is refused."""
    assert (await sent(*GOING, UserMessage.of("on"), tools=tools))[:2] == [
        ("user", ["hi", "[tools changed]"]),
        ("assistant", ["yes"]),
    ]


@pytest.mark.parametrize("model", ["claude-sonnet-5-5", "claude-haiku-4-5"])
async def test_added_tool_is_withdrawn_and_offered_again_by_its_name(model: str) -> None:
    """A tool that messages defined stands in no request's tools; before that there is none."""
    added = reference_to(OLD)
    adds = UserMessage.of("[tools added]", [added], author="mcp")
    history = (*GOING[:3], adds, answer(), *GOING[1:], UserMessage.of("go on"))
    tools = (ToolSpec("read", "", {"type": "object"}), ANNOUNCED)
    found = await sent(*history, tools=tools, model=model)

    changes = [blocks for role, blocks in found if role == "system"]
    expected = [["tool_addition"], ["tool_removal"], ["tool_addition"]]
    assert changes == (expected if model == "claude-sonnet-5-5" else [])


async def test_tools_that_come_later_are_told_as_text_where_there_is_no_other_tool() -> None:
    """The API refuses requests in which every tool is deferred, as its placeholder is."""
    adds = UserMessage.of("[tools added]", [reference_to(OLD)], author="mcp")
    async with FakeMessagesApi(reply("ok")) as api, asker(api) as it:
        await it.ask(request(UserMessage.of("hi"), adds, tools=(ANNOUNCED,), system=("S",)))

    assert api.refusals == []
    assert [tool["name"] for tool in api.requests[0].body["tools"]] == [CALL_FOUND]
    assert "mcp__s__old" in str(api.requests[0].body["messages"])


async def test_refused_withdrawals_are_off_for_the_session() -> None:
    said = "messages.1.content.0: Input tag 'tool_removal' does not match any of the expected tags"
    asked = request(*GOING, UserMessage.of("go on"), tools=(OLD, ANNOUNCED))
    refusal = error(400, "invalid_request_error", said)
    async with FakeMessagesApi(refusal, reply("ok"), reply("ok")) as api, asker(api) as it:
        for _ in range(2):
            assert (await it.ask(asked)).text == "ok"

    header = "mid-conversation-tool-changes-2026-07-01"
    sent_it = [header in each.headers["anthropic-beta"] for each in api.requests]
    assert sent_it == [True, False, False]
    assert api.requests[0].body["tools"] == api.requests[2].body["tools"]
    assert "tool_removal" not in str(api.requests[2].body)


PIECES = st.lists(st.sampled_from(["say", "notice", "late", "high", "low"]), min_size=1, max_size=4)


@given(
    turns=st.lists(PIECES, min_size=1, max_size=6),
    model=st.sampled_from(["claude-sonnet-5-5", "claude-opus-4-8", "claude-haiku-4-5", "other"]),
)
def test_later_turns_change_no_earlier_byte(turns: list[list[str]], model: str) -> None:
    """Whatever the program says between them, and in whichever order."""
    history: list[LlmMessage] = []
    before: list[bytes] = []
    level: Any = None
    for turn in turns:
        history.append(UserMessage.of("go on"))
        for piece in turn:
            match piece:
                case "notice":
                    history.append(notice())
                case "late":
                    history.append(UserMessage.of("More:", [reference_to(LATE)], author="mcp"))
                case "high" | "low" if isinstance(last := history[-1], UserMessage):
                    level = piece
                    history[-1] = replace(last, effort=level)
                case _:
                    history.append(UserMessage.of(piece))
        tools = (ToolSpec("read", "", {"type": "object"}), ANNOUNCED, LATE)
        asked = request(*history, model=model, tools=tools, thinking_level=level)
        now = [each.content for each in segments_of(parameters(asked, compat=model == "other"))]
        assert now[: len(before)] == before
        assert len(now) > len(before)
        before = now
        history.append(answer())
