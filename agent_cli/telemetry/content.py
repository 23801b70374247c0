"""Message texts as JSON in the format of the conventions: without secrets, and limited in size."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from agent_cli.contracts.messages import AssistantMessage, LlmMessage, ToolResultMessage
from agent_cli.contracts.provider import Reply
from agent_cli.contracts.timeline import Block, Json
from agent_cli.contracts.tooling import ToolSpec

_TEXT_CHARS_MAX: Final = 8_000
_ATTRIBUTE_CHARS_MAX: Final = 64_000


class Content:
    """Serialises messages, arguments and results for spans."""

    def __init__(self, mask: Callable[[Json], Json]) -> None:
        """Pass all values through *mask*, which removes secrets from JSON values."""
        self._mask = mask

    def messages(self, messages: Sequence[LlmMessage]) -> str:
        """Return the latest of *messages* that fit."""
        return self._newest(map(_message, reversed(messages)))

    def reply(self, reply: Reply) -> str:
        """Return the single message of *reply*."""
        parts = [_part(block) for block in reply.content]
        message: Json = {"role": "assistant", "parts": parts, "finish_reason": reply.stop_reason}
        return self._newest([message])

    def instructions(self, system: Sequence[str]) -> str:
        """Return the parts of a system prompt."""
        parts: list[Json] = [{"type": "text", "content": text} for text in system]
        return self.json(parts)

    def tools(self, specs: Sequence[ToolSpec]) -> str:
        """Return the names and descriptions of tools."""
        found: list[Json] = [
            {"type": "function", "name": each.name, "description": each.description}
            for each in specs
        ]
        return self.json(found)

    def blocks(self, blocks: Sequence[Block]) -> str:
        """Return the parts of a result."""
        return self.json([_part(block) for block in blocks])

    def json(self, value: Json) -> str:
        """Return *value* as JSON, or only its length if it is too long."""
        written = self._written(value)
        if len(written) <= _ATTRIBUTE_CHARS_MAX:
            return written
        return _dumped({"omitted": f"{len(written):,} characters"})

    def _newest(self, newest_first: Iterable[Json]) -> str:
        kept: list[str] = []
        left = _ATTRIBUTE_CHARS_MAX
        for value in newest_first:
            written = self._written(value)
            left -= len(written) + 2
            if left < 0:
                break
            kept.append(written)
        return f"[{', '.join(reversed(kept))}]"

    def _written(self, value: Json) -> str:
        # Mask before cutting: part of a secret would not be recognised.
        try:
            return _dumped(_shortened(self._mask(value)))
        except RecursionError:
            return _dumped({"omitted": "nested too deeply"})


def _message(message: LlmMessage) -> Json:
    if isinstance(message, ToolResultMessage):
        response = [_part(block) for block in message.content]
        part: Json = {
            "type": "tool_call_response",
            "id": message.tool_call_id,
            "response": response,
        }
        return {"role": "tool", "parts": [part]}
    role = "assistant" if isinstance(message, AssistantMessage) else "user"
    return {"role": role, "parts": [_part(block) for block in message.content]}


def _part(block: Block) -> Json:
    match block:
        case {"type": "text", "text": text}:
            return {"type": "text", "content": text}
        case {"type": "thinking", "thinking": thinking}:
            return {"type": "reasoning", "content": thinking}
        case {"type": "tool_use", "id": id, "name": name, "input": given}:
            return {"type": "tool_call", "id": id, "name": name, "arguments": given}
        case _:  # images and documents: only the type is sent
            return {"type": block["type"]}


def _shortened(value: Json) -> Json:
    if isinstance(value, str):
        left_out = len(value) - _TEXT_CHARS_MAX
        return value if left_out <= 0 else f"{value[:_TEXT_CHARS_MAX]} [… {left_out:,} more]"
    if isinstance(value, Mapping):
        return {key: _shortened(part) for key, part in value.items()}
    if isinstance(value, Sequence):
        return [_shortened(part) for part in value]
    return value


def _dumped(value: Json) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text.encode(errors="replace").decode()  # a lone surrogate would fail the whole batch
