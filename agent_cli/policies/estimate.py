"""Estimate tokens from characters, or from the API's own count where there is one."""

import json
from collections.abc import Iterable, Sequence

from agent_cli.contracts.hosted_blocks import is_result, is_use
from agent_cli.contracts.media_files import DOCUMENT_PAGES_MAX, USUAL_PAGE_TOKENS, pages_of
from agent_cli.contracts.messages import CustomMessage, Message, ToolResultMessage, UserMessage
from agent_cli.contracts.timeline import (
    Block,
    BlockOutput,
    CompactionOutput,
    CustomOutput,
    Output,
    ReplyOutput,
    TrimOutput,
)
from agent_cli.contracts.tooling import ToolSpec
from agent_cli.core.conversation import Conversation
from agent_cli.core.projection import (
    WORDS_TEXT,
    is_summary,
    last_reply,
    messages,
)

CHARS_PER_TOKEN = 4
# The tokens of a large image on most models; the newest ones count up to three times as many.
USUAL_IMAGE_TOKENS = 1_600


def estimate_tokens(history: Iterable[Message]) -> int:
    """Return the tokens of *history*: a quarter of its characters, and images and PDFs."""
    contents = [message.content for message in history if not isinstance(message, CustomMessage)]
    return content_tokens(block for content in contents for block in content)


def content_tokens(content: Iterable[Block]) -> int:
    """Return the tokens of blocks: a quarter of their characters, and images and PDFs."""
    blocks = [*content]
    return sum(map(_characters, blocks)) // CHARS_PER_TOKEN + sum(map(_seen_tokens, blocks))


def estimate_fixed(system: Sequence[str], tools: Iterable[ToolSpec]) -> int:
    """Return the tokens of the fixed part of a request: the system prompt and the tools."""
    defined = [
        _json([tool.name, tool.description, tool.input_schema])
        for tool in tools
        if not tool.is_deferred
    ]
    return sum(map(len, (*system, *defined))) // CHARS_PER_TOKEN


def estimate_parts(
    system: Sequence[str], tools: Iterable[ToolSpec], history: Sequence[Message]
) -> dict[str, int]:
    """Return the tokens of a request by kind of content, for display."""
    results = [each for each in history if isinstance(each, ToolResultMessage)]
    messages = [each for each in history if not isinstance(each, ToolResultMessage)]
    texts = [each.text for each in messages if isinstance(each, UserMessage)]
    cuts = [text.partition(WORDS_TEXT) for text in texts if is_summary(text, or_cut=True)]
    notes = sum(len(each[0]) for each in cuts if is_summary(each[0])) // CHARS_PER_TOKEN
    words = sum(len(each[2]) for each in cuts) // CHARS_PER_TOKEN
    notes_sent = [each for each in messages if isinstance(each, UserMessage) and not each.is_typed]
    notes_sent = [each for each in notes_sent if not is_summary(each.text, or_cut=True)]
    program = {"notes of the program": estimate_tokens(notes_sent)} if notes_sent else {}
    cut = {"summary": notes} if notes else {}
    cut |= {"your words before it": words} if cuts else {}
    return {
        "system prompt": estimate_fixed(system, ()),
        "tools": estimate_fixed((), tools),
        **cut,
        "messages": estimate_tokens(messages) - notes - words - estimate_tokens(notes_sent),
        **program,
        "tool results": estimate_tokens(results),
    }


def measured_tokens(conversation: Conversation) -> int | None:
    """Return the size of the next prompt, based on the API's count for the last reply.

    Entries after that reply are estimated.

    Returns:
        None when there is no count, or the history was cut since.
    """
    outputs = conversation.shown()
    for index in reversed(range(len(outputs))):
        match outputs[index]:
            case CompactionOutput() | TrimOutput() | CustomOutput(name="left out"):
                return None
            case ReplyOutput(usage=usage):
                if not usage.prompt_tokens or _ran_at_server(outputs[:index]):
                    return None
                after = [*last_reply(outputs)[1], *messages(outputs[index + 1 :])]
                return usage.prompt_tokens + usage.output_tokens + estimate_tokens(after)
            case _:
                pass
    return None


def _ran_at_server(before: Sequence[Output]) -> bool:
    """Return whether the server ran calls for the reply that ends behind *before*.

    Its count is then the sum of all rounds, and no size of a prompt.
    """
    for output in reversed(before):
        match output:
            case ReplyOutput():
                return False
            case BlockOutput(block=block) if is_use(block) or is_result(block):
                return True
            case _:
                pass
    return False


def _characters(block: Block) -> int:
    match block:
        case {"type": "text", "text": str(text)} | {"type": "thinking", "thinking": str(text)}:
            return len(text)
        case {"type": "tool_reference", "definition": definition}:
            return len(_json(definition))
        case {"tool_use_id": _} if is_result(block):
            return len(_json(block))
        case {"type": "tool_use" | "server_tool_use"}:
            return len(str(block["name"])) + len(_json(block.get("input")))
        case _:
            return 0


def _seen_tokens(block: Block) -> int:
    """Return the tokens of what a model looks at."""
    if block["type"] == "document":
        return (pages_of(block) or DOCUMENT_PAGES_MAX) * USUAL_PAGE_TOKENS
    return USUAL_IMAGE_TOKENS if block["type"] == "image" else 0


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
