"""The GenAI conventions: metrics, four of our own included, names of attributes, message texts.

Texts are JSON in the format of the conventions, without secrets and limited in size.
"""

import json
from asyncio import CancelledError
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from opentelemetry.metrics import Meter
from opentelemetry.util.types import AttributeValue

from agent_cli.contracts.errors import ModelError
from agent_cli.contracts.messages import AssistantMessage, LlmMessage, ToolResultMessage
from agent_cli.contracts.provider import Reply
from agent_cli.contracts.side_events import CacheLost
from agent_cli.contracts.timeline import Block, Json, Usage
from agent_cli.contracts.tooling import Allow, Ask, ToolSpec, Verdict
from agent_cli.contracts.wording import in_usd

# Bucket boundaries from the conventions.
_TOKEN_BUCKETS: Final = [4.0**power for power in range(14)]
_SECOND_BUCKETS: Final = [0.01 * 2.0**power for power in range(14)]
_TEXT_CHARS_MAX: Final = 8_000
_ATTRIBUTE_CHARS_MAX: Final = 64_000


class Instruments:
    """The metrics, each recorded by one method."""

    def __init__(self, meter: Meter) -> None:
        """Create the instruments in *meter*."""
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Tokens that model calls read and wrote",
            explicit_bucket_boundaries_advisory=_TOKEN_BUCKETS,
        )
        self._chats = meter.create_histogram(
            "gen_ai.client.operation.duration",
            unit="s",
            description="Duration of model calls, retries included",
            explicit_bucket_boundaries_advisory=_SECOND_BUCKETS,
        )
        self._tools = meter.create_histogram(
            "gen_ai.execute_tool.duration",
            unit="s",
            description="Duration of tool calls",
            explicit_bucket_boundaries_advisory=_SECOND_BUCKETS,
        )
        self._cost = meter.create_counter(
            "agent_cli.cost.usd", unit="USD", description="List price of model calls"
        )
        self._cache_lost = meter.create_counter(
            "agent_cli.cache_lost.tokens",
            unit="{token}",
            description="Tokens that were in the prompt cache and were read anew",
        )
        self._cache_lost_cost = meter.create_counter(
            "agent_cli.cache_lost.usd", unit="USD", description="What these tokens cost more"
        )
        self._decisions = meter.create_counter(
            "agent_cli.permission.decisions",
            unit="{decision}",
            description="Decisions about tool calls",
        )

    def chat_ended(self, attributes: dict[str, AttributeValue], elapsed_s: float) -> None:
        """Record a model call with *attributes*."""
        self._chats.record(elapsed_s, attributes)

    def used(
        self, attributes: dict[str, AttributeValue], usage: Usage, cost_microdollars: int | None
    ) -> None:
        """Record the usage of a model call with *attributes*; an unknown cost is left out."""
        counts = {"input": usage.prompt_tokens, "output": usage.output_tokens}
        for kind, tokens in counts.items():
            self._tokens.record(tokens, {**attributes, "gen_ai.token.type": kind})
        if cost_microdollars is not None:
            self._cost.add(in_usd(cost_microdollars), attributes)

    def tool_ended(self, attributes: dict[str, AttributeValue], elapsed_s: float) -> None:
        """Record a tool call with *attributes*."""
        self._tools.record(elapsed_s, attributes)

    def cache_lost(self, loss: CacheLost) -> None:
        """Count a loss of the prompt cache; an unknown cost is left out."""
        attributes = {"agent_cli.cache_lost.announced": loss.was_announced}
        self._cache_lost.add(loss.tokens, attributes)
        if loss.cost_microdollars is not None:
            self._cache_lost_cost.add(in_usd(loss.cost_microdollars), attributes)

    def decided(self, tool_name: str, decision: str) -> None:
        """Count a decision about a call."""
        attributes = {"agent_cli.permission.decision": decision, TOOL: plain(tool_name)}
        self._decisions.add(1, attributes)


def word_for(verdict: Verdict) -> str:
    """Return the word for the policy's verdict."""
    if isinstance(verdict, Allow):
        return "allow"
    return "ask" if isinstance(verdict, Ask) else "deny"


# Attribute names shared by several kinds of spans, and clean values for them.

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
MODEL: Final = "gen_ai.request.model"
CONVERSATION: Final = "gen_ai.conversation.id"
TOOL: Final = "gen_ai.tool.name"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS: Final = "gen_ai.usage.cache_creation.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
ERROR: Final = "error.type"
CANCELLED: Final = "cancelled"
_NAME_CHARS_MAX: Final = 256


def plain(name: str) -> str:
    """Return *name* shortened and valid as UTF-8: models may send any text as a name."""
    return name[:_NAME_CHARS_MAX].encode(errors="replace").decode()


def error_type(error: BaseException) -> str:
    """Return the kind of *error*; its message may hold content, and is not sent."""
    if isinstance(error, CancelledError | GeneratorExit):
        return CANCELLED
    if isinstance(error, ModelError) and (error.kind or error.status):
        return plain(error.kind or str(error.status))
    return type(error).__name__


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
        case {"type": "tool_use", "id": id, "name": name, "input": call_input}:
            return {"type": "tool_call", "id": id, "name": name, "arguments": call_input}
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
