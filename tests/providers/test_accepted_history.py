"""Replies in the history that the API would refuse: one of them would end the session."""

from typing import Any

import pytest

from agent_cli.contracts.messages import (
    AssistantMessage,
    LlmMessage,
    ToolResultMessage,
    UserMessage,
)
from agent_cli.contracts.timeline import Block, text_block
from agent_cli.providers.anthropic.accepted_history import accepted
from tests.messages_api import FakeMessagesApi, ReceivedRequest, error, reply, text, thinking
from tests.providers.asking import asker, request
from tests.tables import each_row

QUESTION = UserMessage.of("hi")
ANSWER = UserMessage.of("go on")
COMMAND = "git log --oneline | " + "head " * 60
UNSIGNED: Block = {"type": "thinking", "thinking": "hm"}


def called(name: str, call_id: str) -> tuple[LlmMessage, ...]:
    """Return a history with a call and its result."""
    call: Block = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
    return (
        QUESTION,
        AssistantMessage((call,), "tool_use"),
        ToolResultMessage(call_id, name, (text_block("done"),)),
    )


async def sent(*history: LlmMessage, **options: Any) -> ReceivedRequest:
    """Return the request that the strict server accepted."""
    async with FakeMessagesApi(reply("ok")) as api, asker(api, **options) as it:
        asked = await it.ask(request(*history))

    assert (api.refusals, asked.error) == ([], None)
    return api.requests[0]


@each_row("name", [COMMAND, "functions.read", "", "lire é"])
async def test_call_by_an_impossible_name_does_not_end_the_session(name: str) -> None:
    """Models have written whole commands there."""
    await sent(*called(name, "t1"))


@pytest.mark.parametrize("call_id", ["functions.read:0", "call 1", "x" * 5_000])
async def test_call_of_another_server_keeps_its_result(call_id: str) -> None:
    await sent(*called("read", call_id))


async def test_valid_calls_are_sent_unchanged() -> None:
    history = called("mcp__server__read-file_2", "toolu_vrtx_01AbC")

    assert accepted(history, compat=False) == history


async def test_compatible_server_gets_its_own_ids_and_thinking_back() -> None:
    history = (
        *called("read", "functions.read:0"),
        AssistantMessage((UNSIGNED, text("ok"))),
        ANSWER,
    )

    assert accepted(history, compat=True) == history


@each_row("compat", [True, False])
async def test_fields_of_the_other_api_are_left_out(compat: bool) -> None:
    """A session of the Chat Completions API may go on here, which refuses fields it lacks."""
    _, called_by, result = called("read", "t1")
    assert isinstance(called_by, AssistantMessage)
    call: Block = {**called_by.content[0], "extra_content": {}, "reasoning_details": []}
    thought: Block = {**UNSIGNED, "field": "reasoning_content"}
    foreign = AssistantMessage((thought, call), "tool_use")

    _, mended, _ = accepted((QUESTION, foreign, result), compat=compat)

    assert mended.content == (*([UNSIGNED] if compat else ()), called_by.content[0])


async def test_thinking_without_a_signature_is_left_out() -> None:
    """A session that began with a compatible server continues with Anthropic's."""
    got = await sent(QUESTION, AssistantMessage((UNSIGNED, text("ok"))), ANSWER)

    assert got.body["messages"][1]["content"] == [text("ok")]


@pytest.mark.parametrize("compat", [False, True])
async def test_history_is_sent_without_thinking_that_the_server_rejects(compat: bool) -> None:
    """Another server may have signed it in its own way."""
    history = (QUESTION, AssistantMessage((thinking("hm", "of another"), text("ok"))), ANSWER)
    async with FakeMessagesApi(reply("ok")) as api, asker(api, compat=compat) as it:
        asked = await it.ask(request(*history))

    assert asked.text == "ok"
    assert [refusal.rule for refusal in api.refusals] == ["R28"]
    assert api.requests[-1].body["messages"][1]["content"] == [text("ok")]
    assert api.requests[-1].body.get("thinking") == api.requests[0].body.get("thinking")


async def test_rejected_thinking_is_reported_if_there_is_none_to_leave_out() -> None:
    invalid = error(400, "invalid_request_error", "messages.0: no `thinking` here")
    async with FakeMessagesApi(invalid) as api, asker(api) as it:
        asked = await it.ask(request())

    assert asked.error is not None
    assert len(api.requests) == 1


def test_thinking_before_the_mark_of_a_fallback_goes_with_the_mark() -> None:
    """Without the mark the API takes the thinking of two models for that of one, and refuses."""
    first: Block = {"type": "thinking", "thinking": "", "signature": "a"}
    second: Block = {**first, "signature": "b"}
    mark: Block = {"type": "fallback"}
    yes = text_block("Yes.")
    history = [AssistantMessage((first, yes, mark, second, yes))]

    assert accepted(history, compat=False, marks_fallbacks=True) == (*history,)
    assert accepted(history, compat=False)[0].content == (yes, second, yes)
