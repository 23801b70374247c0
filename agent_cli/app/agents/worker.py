"""Connect a subagent's run with the session."""

from typing import TYPE_CHECKING, Final

from agent_cli.agents.children import Assignment
from agent_cli.app.agents.servers import AgentServers
from agent_cli.app.agents.workspaces import AgentWorkspace
from agent_cli.app.jobs import AgentJobs
from agent_cli.contracts.errors import ToolError
from agent_cli.core.agent import Agent
from agent_cli.core.declining import REFUSALS_MAX, decline_and_stop
from agent_cli.core.run_result import RunResult
from agent_cli.hooks.lifecycle import SENT_BACK_MAX

if TYPE_CHECKING:
    from agent_cli.app.workbench import Workbench

_KEEPS_ASKING: Final = (
    "The agent {} kept asking for what needs a person's approval, and nobody can be asked in this"
    " run; so it was stopped. Go on without it, and say at the end what was left out."
)


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
