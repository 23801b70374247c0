"""What agents tell that work for the agent at hand; a part of the union in events.py."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from agent_cli.contracts.events import Event


@dataclass(frozen=True, slots=True)
class AgentEvent:
    """An event of an agent that the call `tool_call_id` started; `agent` is the kind it is of.

    An event of an agent that this one started in turn is an `AgentEvent` itself.
    """

    type: ClassVar[Literal["app.agent_event"]] = "app.agent_event"
    agent_id: str
    agent: str
    tool_call_id: str
    event: "Event"


def innermost(event: "Event") -> "Event":
    """Return what happened, in whichever agent it did."""
    while isinstance(event, AgentEvent):
        event = event.event
    return event
