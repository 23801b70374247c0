"""Events beside a run's course: calls tried first, losses of the prompt cache, waits for money.

See `events` for the rest.
"""

from typing import ClassVar, Literal, TypeAlias

from agent_cli.contracts.tooling import ToolResult
from agent_cli.system.records import dataclass


@dataclass(frozen=True, slots=True)
class ToolAttemptStart:
    """A call is tried without lasting effect; a start and an end follow, or a person is asked."""

    type: ClassVar[Literal["app.tool_attempt_start"]] = "app.tool_attempt_start"
    tool_call_id: str
    tool_name: str


@dataclass(frozen=True, slots=True)
class ToolAttemptUpdate:
    """A call that is tried streamed output to show; it is void if a person is asked."""

    type: ClassVar[Literal["app.tool_attempt_update"]] = "app.tool_attempt_update"
    tool_call_id: str
    tool_name: str
    partial_result: ToolResult


@dataclass(frozen=True, slots=True)
class ModelCallDelayed:
    """A model call waits: running calls hold the rest of the cost limit; `app.usage_held` ends it.

    `calls` is the number of running calls. It comes again if the call still waits after that.
    """

    type: ClassVar[Literal["app.model_call_delayed"]] = "app.model_call_delayed"
    calls: int


@dataclass(frozen=True, slots=True)
class CacheLost:
    """Tokens that were in the prompt cache and were read anew.

    `cost_microdollars` is the extra cost, None if the price is unknown; `was_announced` says that
    the user was shown the price before.
    """

    type: ClassVar[Literal["app.cache_lost"]] = "app.cache_lost"
    tokens: int
    cost_microdollars: int | None
    cause: str
    was_announced: bool


SideEvent: TypeAlias = ToolAttemptStart | ToolAttemptUpdate | ModelCallDelayed | CacheLost
