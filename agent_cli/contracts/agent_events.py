"""Events of subagents; a part of the union in events.py."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from agent_cli.contracts.events import Event


@dataclass(frozen=True, slots=True)
class AgentEvent:
    """An event of a subagent that the call `tool_call_id` started; `agent` is its kind.

    An event of a subagent's own subagent is an `AgentEvent` inside an `AgentEvent`.
    """

    type: ClassVar[Literal["app.agent_event"]] = "app.agent_event"
    agent_id: str
    agent: str
    tool_call_id: str
    event: "Event"


def innermost(event: "Event") -> "Event":
    """Return the event itself, without the `AgentEvent` layers around it."""
    while isinstance(event, AgentEvent):
        event = event.event
    return event
