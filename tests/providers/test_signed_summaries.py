"""Summaries that the API signs go back as they came; all others are text."""

from typing import Any

from agent_cli.contracts.messages import AssistantMessage, LlmMessage, SignedSummary, UserMessage
from agent_cli.contracts.timeline import Block, text_block
from tests.messages_api import FakeMessagesApi, error, reply, tool_use
from tests.providers.asking import asker, request

BETA = "compact-2026-09-04"
MODEL = "claude-sonnet-5-5"
ASKED: tuple[LlmMessage, ...] = (
    UserMessage.of("hi"),
    AssistantMessage((text_block("yes"),)),
    UserMessage.of("Write the notes."),
)


def ending(**more: Any) -> Any:
    return request(*ASKED, model="claude-sonnet-5-5", summarizes=True, **more)


async def test_summary_is_asked_for_by_a_parameter_and_comes_as_one_block() -> None:
    """Its cost stands in the iterations alone."""
    async with FakeMessagesApi(reply("The notes.")) as api, asker(api) as it:
        asked = await it.ask(ending())

    assert (api.refusals, asked.error) == ([], None)
    body = api.requests[0].body
    assert body["compaction"] == {"type": "summarize", "instructions": "Write the notes."}
    assert [each["role"] for each in body["messages"]] == ["user", "assistant"]
    assert asked.reply is not None
    (block,) = asked.reply.content
    assert (block["type"], block["content"]) == ("compaction", "The notes.")
    assert asked.reply.usage.output_tokens > 0
    assert asked.reply.usage.prompt_tokens > 0


async def test_block_goes_back_first_and_unchanged_for_its_model_alone() -> None:
    """In place of its text; another model reads the text."""
    async with (
        FakeMessagesApi(reply("The notes."), reply("on"), reply("on")) as api,
        asker(api) as it,
    ):
        made = await it.ask(ending())
        assert made.reply is not None
        signed = SignedSummary("claude-sonnet-5-5", made.reply.content[0], "[words] be brief")
        told = UserMessage((text_block("[Summary] The notes. [words] be brief"),), signed=signed)
        history = (UserMessage.of("hi"), told, AssistantMessage((text_block("ok"),)))
        for model in ("claude-sonnet-5-5", "claude-opus-5-5"):
            asked = await it.ask(request(*history, UserMessage.of("go on"), model=model))
            assert asked.error is None

    assert api.refusals == []
    own, other = (each.body["messages"] for each in api.requests[1:])
    assert own[0] == {"role": "assistant", "content": [{**made.reply.content[0]}]}
    assert [block["text"] for block in own[1]["content"]] == ["hi", "[words] be brief"]
    assert BETA in api.requests[1].headers["anthropic-beta"]
    assert other[0]["role"] == "user"
    assert "[Summary] The notes." in other[0]["content"][1]["text"]
    assert BETA not in api.requests[2].headers.get("anthropic-beta", "")


async def test_tokens_of_a_request_for_a_summary_are_counted() -> None:
    """It ends with a reply, which the API takes of no other request."""
    async with FakeMessagesApi(count=lambda _request: 7) as api, asker(api) as it:
        tokens = await it.provider.count_tokens(ending())

    assert (tokens, api.refusals) == (7, [])


async def test_refused_parameter_becomes_a_message_for_the_session() -> None:
    refusal = error(400, "invalid_request_error", "compaction: Extra inputs are not permitted")
    async with FakeMessagesApi(refusal, reply("Notes."), reply("Notes.")) as api, asker(api) as it:
        for _ in range(2):
            asked = await it.ask(ending())
            assert asked.error is None

    bodies = [each.body for each in api.requests]
    assert ["compaction" in body for body in bodies] == [True, False, False]
    assert bodies[1]["messages"][-1]["content"][-1]["text"] == "Write the notes."


def after(block: Block, *more: LlmMessage) -> Any:
    """Return a request behind the summary that *block* holds."""
    told = UserMessage((text_block("The notes."),), signed=SignedSummary(MODEL, block))
    return request(UserMessage.of("hi"), told, *more, UserMessage.of("go on"), model=MODEL)


async def test_summary_that_the_server_does_not_verify_goes_as_text() -> None:
    """Another organisation's, or a damaged one: the session goes on."""
    block: Block = {"type": "compaction", "content": "The notes.", "signature": "x"}
    async with FakeMessagesApi(reply("on")) as api, asker(api) as it:
        asked = await it.ask(after(block))

    assert [each.code for each in api.refusals] == ["compaction_signature_invalid"]
    assert asked.error is None
    messages = str(api.posted[-1].body["messages"])
    assert ("The notes." in messages, "compaction" in messages) == (True, False)


async def test_summary_that_holds_changes_of_tools_goes_with_their_headers() -> None:
    """No message names them any more."""
    change: Block = {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "read"}}
    block: Block = {"type": "compaction", "content": "The notes.", "tool_changes": [change]}
    async with FakeMessagesApi(reply("on")) as api, asker(api) as it:
        await it.ask(after(block))

    assert "mid-conversation-tool-changes" in api.posted[0].headers["anthropic-beta"]


async def test_model_that_signs_none_gets_a_message() -> None:
    async with FakeMessagesApi(reply("Notes.")) as api, asker(api) as it:
        await it.ask(request(*ASKED, model="claude-haiku-5-5", summarizes=True))

    assert "compaction" not in api.requests[0].body


async def test_reply_without_a_block_is_none() -> None:
    """A model that called a tool: nothing of that reaches the caller but the reason."""
    async with FakeMessagesApi(reply(tool_use("read", {}))) as api, asker(api) as it:
        asked = await it.ask(ending())

    assert asked.reply is not None
    assert (asked.reply.content, asked.reply.stop_reason) == ((), "tool_use")
