"""Token counts: by characters, and by the API's own figures."""

import json

from agent_cli.contracts.media_files import USUAL_PAGE_TOKENS, document_block
from agent_cli.contracts.messages import (
    AssistantMessage,
    CustomMessage,
    Message,
    ToolResultMessage,
    UserMessage,
)
from agent_cli.contracts.timeline import Block, Json, Success, Usage, text_block
from agent_cli.contracts.tooling import ToolSpec
from agent_cli.core.conversation import Conversation
from agent_cli.core.projection import CUT_TEXT, WORDS_TEXT
from agent_cli.policies.estimate import (
    estimate_fixed,
    estimate_parts,
    estimate_tokens,
    measured_tokens,
)
from tests.fakes import calls, says, tool_use

IMAGE: Block = {"type": "image", "source": {"type": "base64", "data": "A" * 90_000}}


def test_an_estimate_is_a_quarter_of_the_characters_that_are_sent() -> None:
    """S1c-2: text, tool names, inputs and results count; details and notes are not sent."""
    given: Json = {"path": "é" * 30}
    history: list[Message] = [
        UserMessage.of("u" * 40),
        AssistantMessage((text_block("a" * 80), tool_use("read", given))),
        ToolResultMessage("t1", "read", (text_block("r" * 400),), details="d" * 999),
        CustomMessage("note", "n" * 999),
    ]

    characters = 40 + 80 + len("read") + len(json.dumps(given, ensure_ascii=False)) + 400
    assert estimate_tokens(history) == characters // 4


def test_estimate_counts_thinking_and_a_fixed_size_for_each_image() -> None:
    """S1c-2: thinking is sent back; an image's base64 text says nothing about its tokens."""
    thinking: Block = {"type": "thinking", "thinking": "t" * 400, "signature": "s" * 999}

    assert estimate_tokens([AssistantMessage((thinking,))]) == 100
    assert estimate_tokens([UserMessage.of("u" * 43, [IMAGE])]) == 10 + 1_600


def test_estimate_counts_the_pages_of_a_document() -> None:
    """A model reads each as text and as an image; the title says how many there are."""
    three = document_block(b"%PDF-", "a.pdf", pages=3)
    unknown: Block = {**three, "title": "a.pdf"}

    assert estimate_tokens([UserMessage.of("", [three])]) == 3 * USUAL_PAGE_TOKENS
    assert estimate_tokens([UserMessage.of("", [unknown])]) == 20 * USUAL_PAGE_TOKENS


def test_estimate_of_an_empty_conversation_is_zero() -> None:
    assert estimate_tokens([]) == estimate_fixed([], []) == 0


def test_the_fixed_part_is_the_system_prompt_and_the_tools() -> None:
    """S1c-2: names, descriptions and schemas are sent with every request."""
    spec = ToolSpec("look", "d" * 400, {"type": "object"})
    definition = json.dumps(["look", "d" * 400, {"type": "object"}])

    assert estimate_fixed(["s" * 40, "c" * 40], [spec]) == (80 + len(definition)) // 4


def test_estimate_is_split_by_the_parts_of_a_request() -> None:
    """The parts shown by `/context`."""
    history: list[Message] = [
        UserMessage.of("u" * 40),
        ToolResultMessage("t1", "read", (text_block("r" * 400),)),
    ]

    assert estimate_parts(["s" * 80], [], history) == {
        "system prompt": 20,
        "tools": 0,
        "messages": 10,
        "tool results": 100,
    }


def test_last_replys_token_count_replaces_the_estimate_up_to_the_reply() -> None:
    """S1c-2: prompt (with cached parts) and reply as counted; later text is estimated."""
    conversation = Conversation()
    conversation.begin(UserMessage.of("u" * 9_000))
    reply = calls(tool_use("look"))
    usage = Usage(100, 20, cache_read_tokens=3_000, cache_write_5m_tokens=400)
    conversation.add_reply(type(reply)("m", "m", reply.content, "tool_use", usage))
    [call] = conversation.open_calls()
    conversation.settle_call(call.tool_call_id, Success((text_block("r" * 400),)))
    conversation.add_user(UserMessage.of("u" * 40))

    assert measured_tokens(conversation) == 100 + 20 + 3_000 + 400 + 100 + 10


def test_no_measured_count_before_a_reply_or_without_server_usage() -> None:
    """S1c-2: then the estimate is used."""
    conversation = Conversation()
    conversation.begin(UserMessage.of("hi"))
    assert measured_tokens(conversation) is None

    conversation.add_reply(says("hello", usage=Usage()))

    assert measured_tokens(conversation) is None


def test_trimming_discards_the_measured_count() -> None:
    """S1c-2: an old count would trigger the next compaction at once, and so on for ever."""
    conversation = Conversation()
    conversation.begin(UserMessage.of("hi"))
    conversation.add_reply(says("hello", usage=Usage(90_000, 5)))
    second = conversation.begin(UserMessage.of("more"))
    assert second.input
    assert measured_tokens(conversation) == 90_000 + 5 + 1

    conversation.trim(second.input.id, removed_messages=1)
    assert measured_tokens(conversation) is None

    conversation.add_reply(says("yes", usage=Usage(50, 5)))
    assert measured_tokens(conversation) == 55


def test_a_summary_and_the_users_words_are_parts_of_their_own() -> None:
    """`/context` shows what is verbatim and what is summarised; the sum stays the same."""
    text = "[Summary of the conversation up to here]\n" + "s" * 400 + f"\n\n{WORDS_TEXT}\n"
    history: list[Message] = [UserMessage.of("u" * 40), UserMessage.of(text + "w" * 80)]

    parts = estimate_parts([], [], history)

    assert (parts["summary"], parts["your words before it"]) == (110, 20)
    assert sum(parts.values()) == estimate_tokens(history)

    history[1] = UserMessage.of(f"{CUT_TEXT}.]\n\n{WORDS_TEXT}\n" + "w" * 80)
    parts = estimate_parts([], [], history)

    assert "summary" not in parts
    assert parts["your words before it"] == 20
    assert sum(parts.values()) == estimate_tokens(history)
