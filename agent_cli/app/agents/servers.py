"""The MCP servers of a subagent: the session's servers, and the servers in its definition."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent_cli.agents.definition import AgentDefinition
from agent_cli.app.mcp.config import servers_of_agent
from agent_cli.app.mcp.servers import Servers, marked_instructions
from agent_cli.app.startup import StartupContext
from agent_cli.contracts.servers import ServerPhase
from agent_cli.contracts.wording import one_line
from agent_cli.core.lasting_tools import LastingTools
from agent_cli.core.turn import Turn
from agent_cli.mcp_client.deferral import SEARCH_TOOL
from agent_cli.mcp_client.names import is_of_server
from agent_cli.terminal.sanitize import reveal

if TYPE_CHECKING:
    from agent_cli.contracts.servers import ServerState

_REASON_CHARS_MAX: Final = 400


class AgentServers:
    """A `prepare` contributor; `async with` starts the servers of the definition, and ends them.

    Only this agent has their tools, and their set is fixed once they were waited for. One that does
    not start leaves the agent without its tools, and `problems` says so. One that is called like a
    server of the session takes its place.
    """

    def __init__(
        self,
        startup: StartupContext,
        definition: AgentDefinition,
        servers: Servers,
        roots: Callable[[], Sequence[Path]],
        allows: Callable[[str], bool],
    ) -> None:
        """Start nothing yet.

        Args:
            startup: The settings, and the values of variables.
            definition: Brings the servers.
            servers: Those of the session.
            roots: Returns the directories that the agent works in, the first one first.
            allows: Returns whether the agent may have the tool of that name.
        """
        self._startup = startup
        self._definition = definition
        self._roots = roots
        self._allows = allows
        self._shared = servers
        self._pool = servers.of_agent(roots)
        self._present: set[str] = set()
        self._tools = LastingTools()

    async def __aenter__(self) -> "AgentServers":
        await self._pool.__aenter__()
        try:
            await self._connect()
        except BaseException:
            await self._pool.__aexit__()
            raise
        return self

    async def __aexit__(self, *_failure: object) -> None:
        await self._pool.__aexit__()

    async def __call__(self, turn: Turn) -> None:
        """Add tools to *turn*, and the instructions of the agent's own servers."""
        await self._pool.wait_listed()
        shared = [
            # The agent's own conversation has found none.
            replace(tool, is_deferred=False)
            for tool in self._shared.offered()
            if tool.name != SEARCH_TOOL
            and not tool.is_withdrawn
            and not any(is_of_server(tool.name, own) for own in self._definition.own_servers)
        ]
        tools = [*shared, *self._pool.tools(self._present)]
        turn.tools += self._tools.offered(
            turn,
            [tool for tool in tools if self._allows(tool.name)],
            may_change=bool(self._shared.all.states() or self._definition.own_servers),
            refused=self._shared.refused,
        )
        if instructions := marked_instructions(self._pool.instructions()):
            turn.system.append(instructions)

    def states(self) -> Sequence["ServerState"]:
        """Return the state of each server of the definition."""
        return self._pool.states()

    def problems(self) -> str:
        """Return a sentence for the model about each server that did not serve, or ""."""
        states = self._pool.states()
        if self._definition.own_servers and not states:
            names = ", ".join(self._definition.own_servers)
            return _note(f"MCP is switched off here, so its servers were not started: {names}")
        return "\n".join(_note(why) for state in states if (why := self._problem(state)))

    async def _connect(self) -> None:
        if not self._startup.loaded.settings.mcp.enabled:
            return
        source, folder = Path(self._definition.source), self._roots()[0]
        entries = self._definition.own_servers
        self._pool.start(servers_of_agent(self._startup, entries, source, folder))
        await self._pool.wait_started()
        states = self._pool.states()
        self._present = {each.name for each in states if each.phase is ServerPhase.READY}

    def _problem(self, state: "ServerState") -> str:
        if state.phase in (ServerPhase.FAILED, ServerPhase.MISCONFIGURED):
            return state.reason
        if state.changed:
            return (
                f"MCP server '{state.name}' changed since it was approved; not used for now:"
                f" {', '.join(state.changed)}. The user can approve it as a server of the settings:"
                f" agent-cli mcp approve {state.name}"
            )
        if state.phase is ServerPhase.DISABLED or state.name in self._present:
            return ""
        return f"MCP server '{state.name}' was not ready in time"


def _note(text: str) -> str:
    return f"[agent-cli: {one_line(reveal(text), _REASON_CHARS_MAX)}]"
