"""Connect a subagent's run with the session: its MCP servers, its hooks and its questions."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent_cli.agents.children import Assignment
from agent_cli.agents.definitions import AgentDefinition
from agent_cli.app.agents.workspaces import AgentWorkspace
from agent_cli.app.jobs import AgentJobs
from agent_cli.app.mcp import servers_of_agent
from agent_cli.app.mcp.servers import Servers
from agent_cli.app.startup import StartupContext
from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.servers import ServerPhase, ServerState, is_of_server
from agent_cli.contracts.wording import one_line
from agent_cli.core.agent import Agent
from agent_cli.core.call_decisions import REFUSALS_MAX, decline_and_stop
from agent_cli.core.lasting_tools import LastingTools
from agent_cli.core.run import RunResult
from agent_cli.core.turn import Turn
from agent_cli.hooks.lifecycle import SENT_BACK_MAX
from agent_cli.mcp_client.declared_tools import SEARCH_TOOL, marked_instructions
from agent_cli.system.sanitize import reveal

if TYPE_CHECKING:
    from agent_cli.app.workbench import Workbench

_KEEPS_ASKING: Final = (
    "The agent {} kept asking for what needs a person's approval, and nobody can be asked in this"
    " run; so it was stopped. Go on without it, and say at the end what was left out."
)


class AgentServers:
    """A `prepare` contributor; `async with` starts the servers of the definition, and ends them.

    Only this agent has the servers' tools, and the set of tools is fixed once the servers were
    waited for. A server that does not start leaves the agent without its tools, and `problems` says
    so. A server with the name of one of the session's replaces that for this agent.
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
            servers: The session's servers.
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
        await self._shared.all.wait_listed()
        shared = [
            # The agent's own conversation has found none.
            replace(tool, is_deferred=False)
            for tool in self._shared.for_agents()
            if tool.name != SEARCH_TOOL
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

    def states(self) -> Sequence[ServerState]:
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

    def _problem(self, state: ServerState) -> str:
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


class AgentWorker:
    """An agent with its task; see `Worker`."""

    def __init__(
        self,
        bench: "Workbench",
        assignment: Assignment,
        agent: Agent,
        jobs: AgentJobs,
        agent_workspace: AgentWorkspace,
        servers: AgentServers,
    ) -> None:
        """Do nothing yet; *jobs*, *agent_workspace* and *servers* belong to the agent."""
        self.agent = agent
        self._bench = bench
        self._assignment = assignment
        self._jobs = jobs
        self._agent_workspace = agent_workspace
        self._servers = servers
        self._sent_back = 0
        self._refusals = 0

    async def decide(self) -> RunResult:
        """Ask the user about the waiting calls, and continue the run.

        Raises:
            ToolError: No user is present, and the agent kept asking after several refusals.
        """
        if not self._bench.person.can_decide:
            if self._refusals == REFUSALS_MAX:
                waiting = self.agent.conversation.questions()
                await decline_and_stop(self.agent, [call.tool_call_id for call in waiting])
                raise ToolError(_KEEPS_ASKING.format(self._assignment.definition.name))
            self._refusals += 1
        stop = self._assignment.stop
        result = await self._bench.person.decide(self.agent, self._assignment.who, stop)
        if result.stop_reason == "aborted" and not stop.cancelled:
            self._bench.agent.abort()  # stopping at a question stops the whole session's run
        return result

    async def send_back(self, text: str) -> str:
        """Return why SubagentStop hooks do not let the agent end; "" after a few times."""
        if self._sent_back == SENT_BACK_MAX:
            return ""
        again, self._sent_back = self._sent_back > 0, self._sent_back + 1
        working = self._agent_workspace.working(self.agent, self._assignment.definition.name)
        why = await self._bench.hooks.agent_ends(
            working, text, again=again, conversation=self.agent.conversation
        )
        return f"[A SubagentStop hook of the user's does not let you end yet: {why}]" if why else ""

    async def end(self) -> str:
        """End the agent's jobs and close its workspace; return more text for the model."""
        reports = (
            self._servers.problems(),
            await self._jobs.end(),
            await self._agent_workspace.close(),
        )
        return "\n".join(filter(None, reports))


_REASON_CHARS_MAX: Final = 400


def _note(text: str) -> str:
    return f"[agent-cli: {one_line(reveal(text), _REASON_CHARS_MAX)}]"
