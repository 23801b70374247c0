"""Build the `messages` of the Messages API; pure."""

from collections.abc import Iterable, Sequence
from typing import Final, assert_never

from agent_cli.contracts.messages import (
    INCOMPLETE,
    AssistantMessage,
    LlmMessage,
    ToolResultMessage,
    UserMessage,
)
from agent_cli.contracts.timeline import Block, Json, text_block

_GO_ON: Final = "(go on)"
_FAILED: Final = "(The call failed.)"


def to_api(llm_messages: Sequence[LlmMessage]) -> list[Block]:
    """Return *llm_messages* as the `messages` of the Messages API.

    Neighbours of one role become one message, blank text is left out (the API refuses it), and an
    empty tool result gets a text that says so. Behind a reply that paused after a text the model is
    asked to go on: the API continues only calls that its server runs. No other reply at the end may
    end in white space.
    """
    sent: list[Block] = []
    for message in llm_messages:
        role, content = _role_and_content(message)
        if not content:
            continue
        if sent and sent[-1]["role"] == role:
            merged = sent[-1]["content"]
            assert isinstance(merged, list)
            merged.extend(content)
        else:
            sent.append({"role": role, "content": content})
    if sent and sent[-1]["role"] == "assistant":
        merged = sent[-1]["content"]
        assert isinstance(merged, list)
        last, message = merged[-1], llm_messages[-1]
        if not isinstance(last, dict) or last["type"] != "text":
            return sent
        if isinstance(message, AssistantMessage) and message.stop_reason == "pause_turn":
            sent.append({"role": "user", "content": [text_block(_GO_ON)]})
        else:
            last = {**last, "text": str(last["text"]).rstrip()}
            sent[-1] = {**sent[-1], "content": [*merged[:-1], last]}
    return sent


def _role_and_content(message: LlmMessage) -> tuple[str, list[Json]]:
    match message:
        case UserMessage():
            return "user", [*not_blank(message.content)]
        case ToolResultMessage():
            content = not_blank(message.content) or [text_block("(no output)")]
            block: Block = {
                "type": "tool_result",
                "tool_use_id": message.tool_call_id,
                "content": [*content],
            }
            if message.is_error and all(part["type"] == "text" for part in content):
                block["is_error"] = True
            elif message.is_error:
                # The API refuses an error with an image, and each later request with it.
                block["content"] = [text_block(_FAILED), *content]
            return "user", [block]
        case AssistantMessage():
            complete = message.stop_reason not in INCOMPLETE
            return "assistant", [*not_blank(message.content)] if complete else []
        case _:
            assert_never(message)


def not_blank(content: Iterable[Block]) -> list[Block]:
    """Return *content* without text blocks that hold nothing but white space."""
    # Not strip: it would copy the whole text for every request.
    return [
        b for b in content if b["type"] != "text" or not (str(b.get("text", "")) or " ").isspace()
    ]
