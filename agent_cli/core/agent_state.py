"""The public state of an agent: a copy at one moment, and the tracker that keeps it up to date."""

from collections.abc import Callable
from dataclasses import dataclass, field

from agent_cli.contracts.events import (
    AgentEnd,
    AgentStart,
    Event,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
)
from agent_cli.contracts.messages import AssistantMessage, Message
from agent_cli.contracts.provider import Model, ThinkingLevel
from agent_cli.contracts.tooling import Tool


@dataclass(frozen=True, slots=True)
class AgentState:
    """A copy of the agent's state at one moment; changing its lists does not affect the agent."""

    system_prompt: str = ""
    model: Model | None = None
    thinking_level: ThinkingLevel | None = "minimal"
    tools: list[Tool] = field(default_factory=list[Tool])
    messages: list[Message] = field(default_factory=list[Message])
    is_streaming: bool = False
    stream_message: AssistantMessage | None = None
    pending_tool_calls: frozenset[str] = frozenset()
    error: str | None = None


@dataclass(slots=True)
class Activity:
    """The current activity of a run, derived from its events alone.

    `partial` builds the reply that is being streamed; None between replies.
    """

    is_streaming: bool = False
    partial: Callable[[], AssistantMessage] | None = None
    pending: set[str] = field(default_factory=set[str])
    error: str | None = None

    def track(self, event: Event) -> None:
        """Update from *event*."""
        match event:
            case AgentStart():
                self.is_streaming, self.error = True, None
            case MessageStart(message=AssistantMessage() as message):
                self.partial = lambda: message
            case MessageUpdate():
                self.partial = event.snapshot
            case MessageEnd():
                self.partial = None
            case ToolExecutionStart():
                self.pending.add(event.tool_call_id)
            case ToolExecutionEnd():
                self.pending.discard(event.tool_call_id)
            case AgentEnd():
                self.is_streaming, self.error = False, event.error
            case _:
                pass
