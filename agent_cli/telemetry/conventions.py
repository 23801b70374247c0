"""The GenAI conventions: metrics, two of our own included, and names of attributes."""

from asyncio import CancelledError
from typing import Final

from opentelemetry.metrics import Meter
from opentelemetry.util.types import AttributeValue

from agent_cli.contracts.errors import ModelError
from agent_cli.contracts.timeline import Usage
from agent_cli.contracts.tooling import Allow, Ask, Verdict
from agent_cli.contracts.wording import in_usd

# Bucket boundaries from the conventions.
_TOKEN_BUCKETS: Final = [4.0**power for power in range(14)]
_SECOND_BUCKETS: Final = [0.01 * 2.0**power for power in range(14)]


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
