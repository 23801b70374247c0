"""A second projection of the timeline: to another API's format (OpenAI's chat completions).

The core does not know of it: like `to_api`, it reads the messages that every provider gets.
"""

import json
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence

from agent_cli.contracts.messages import (
    AssistantMessage,
    LlmMessage,
    ToolResultMessage,
    UserMessage,
)
from agent_cli.contracts.provider import ModelRequest, Reply, ReplyEnd, ReplyStart, StreamEvent
from agent_cli.contracts.timeline import Block, Json, text_block, text_of


def to_chat(system: Sequence[str], messages: Iterable[LlmMessage]) -> list[dict[str, Json]]:
    """Return *messages* as the `messages` of the chat API, without thinking."""
    sent: list[dict[str, Json]] = [{"role": "system", "content": part} for part in system]
    for message in messages:
        sent += _chat(message)
    return sent


def _chat(message: LlmMessage) -> Iterator[dict[str, Json]]:
    match message:
        case UserMessage():
            yield {"role": "user", "content": text_of(message.content)}
        case ToolResultMessage():
            text = text_of(message.content)
            content = f"Error: {text}" if message.is_error else text
            yield {"role": "tool", "tool_call_id": message.tool_call_id, "content": content}
        case AssistantMessage(stop_reason="aborted" | "error" | "refusal" | "context_window"):
            return
        case AssistantMessage():
            said: dict[str, Json] = {"role": "assistant", "content": text_of(message.content)}
            uses = [_function(block) for block in message.content if block["type"] == "tool_use"]
            calls: dict[str, Json] = {"tool_calls": [*uses]} if uses else {}
            yield said | calls


def _function(use: Block) -> Json:
    function: dict[str, Json] = {"name": use["name"], "arguments": json.dumps(use["input"])}
    return {"id": use["id"], "type": "function", "function": function}


class ChatModel:
    """A `stream_fn` for a chat API: it plays scripted answers and records the requests."""

    def __init__(self, *answers: dict[str, Json]) -> None:
        self.requests: list[list[dict[str, Json]]] = []
        self._answers = list(answers)

    async def __call__(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        self.requests.append(to_chat(request.system, request.messages))
        yield ReplyStart(request.model.id)
        yield ReplyEnd(_reply(request.model.id, self._answers.pop(0)))


def _reply(model: str, answer: dict[str, Json]) -> Reply:
    """Return a chat API's answer in the core's types."""
    content = [text_block(str(answer["content"]))] if answer.get("content") else []
    called = answer.get("tool_calls")
    for call in called if isinstance(called, list) else ():
        assert isinstance(call, dict)
        function = call["function"]
        assert isinstance(function, dict)
        given = json.loads(str(function["arguments"]))
        content.append(
            {"type": "tool_use", "id": call["id"], "name": function["name"], "input": given}
        )
    return Reply("chat", model, tuple(content), "tool_use" if called else "end_turn")
