"""Values about agents that work for the session's agent."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent_cli.contracts.permission_modes import Mode
from agent_cli.contracts.servers import ServerState
from agent_cli.system.records import dataclass

if TYPE_CHECKING:
    from agent_cli.contracts.timeline import Prompt
    from agent_cli.contracts.tooling import Tool


@dataclass(frozen=True, slots=True)
class AgentInfo:
    """An agent in a list.

    `title` names it and its task in one line; `state` says in a few words what it does, or for how
    long it worked. `tool_call_id` is the call that started it, `root_call_id` the call of the
    session's agent that it, or an agent above it, works for. `is_asking` says that it waits for a
    person's decision.
    """

    number: int
    title: str
    state: str
    is_running: bool
    tool_call_id: str = ""
    root_call_id: str = ""
    is_stopping: bool = False
    is_asking: bool = False


@dataclass(frozen=True, slots=True)
class AgentWork:
    """The task of an agent and its work so far; `tools` names its calls."""

    info: AgentInfo
    task: str
    prompts: "Sequence[Prompt]" = ()
    tools: "Sequence[Tool]" = ()


@dataclass(frozen=True, slots=True)
class WorkingAgent:
    """An agent at work: the id of its conversation, its kind, its directory and permission mode.

    `effort` is how much its model thinks, in the API's words; "" where that has no such levels.
    """

    id: str
    name: str
    directory: Path
    mode: Mode
    effort: str = ""


@dataclass(frozen=True, slots=True)
class AgentServer:
    """An MCP server that serves one agent alone.

    `agent` names the agent, with its number in the list if it works now. `state` is None while no
    such agent works, as the server starts with it.
    """

    agent: str
    name: str
    state: ServerState | None = None

    @property
    def title(self) -> str:
        """The server and its agent in a few words."""
        return f"{self.name} (agent {self.agent})"
