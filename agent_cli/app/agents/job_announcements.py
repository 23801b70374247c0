"""Keep an agent informed about its background commands."""

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Final

from agent_cli.app.announcements import Announcements
from agent_cli.contracts.errors import ConversationError
from agent_cli.contracts.events import Notice
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import Tool
from agent_cli.core.agent import Agent
from agent_cli.core.conversation import Conversation
from agent_cli.core.turn import Turn
from agent_cli.terminal.sanitize import reveal
from agent_cli_tools.job_output import job_output_tool

if TYPE_CHECKING:
    from agent_cli_tools.job import Job
    from agent_cli_tools.workspace import Workspace

JOBS: Final = "jobs"
"""The author of what is announced about jobs, and the name of what is recorded about them."""
_STARTS_JOBS = "bash"


class AgentJobs:
    """A `prepare` contributor and a source of follow-ups.

    A conversation is told of the jobs it started, of each match and end once. After another program
    has resumed the conversation, the model is told that its earlier jobs have ended.
    """

    def __init__(
        self, workspace: "Workspace", announce: Announcements, agent: Callable[[], Agent]
    ) -> None:
        """Report nothing yet.

        Args:
            workspace: The workspace that runs the agent's commands; its tools read and end only
                this agent's jobs from now on.
            announce: Receives a line about each match and end, for the user.
            agent: Returns the agent, which is built later.
        """
        self._jobs = workspace.shared.jobs
        self._announce = announce
        self._agent = agent
        self._workspace = workspace
        workspace.has_started = self.has_started

    @cached_property
    def _tool(self) -> Tool:
        return job_output_tool(self._workspace)

    async def __call__(self, turn: Turn) -> None:
        """Offer `job_output`, and report the matches and ends of jobs."""
        if any(tool.name == _STARTS_JOBS for tool in turn.tools):
            turn.tools += self.tools()
        if not turn.conversation.open_calls():
            for text in chain(self._lost(turn), await self._news()):
                turn.tell_model(text, author=JOBS)
            self._remember(turn)

    async def follow_ups(self) -> Sequence[UserMessage]:
        """Return the news since the last request."""
        return [UserMessage.of(text, author=JOBS) for text in await self._news()]

    def tools(self) -> Sequence[Tool]:
        """Return the tool that reads output, from the first request on; none if there are no jobs.

        The tools precede the conversation in the cache: a tool that came with the first job would
        cost as much as the conversation.
        """
        return [self._tool] if self._jobs.are_allowed else []

    def started(self) -> list["Job"]:
        """Return the jobs started by the conversation."""
        return self._workspace.own_jobs

    def has_started(self, tool_call_id: str) -> bool:
        """Return whether the call *tool_call_id* belongs to the conversation."""
        return _knows(self._agent().conversation, tool_call_id)

    async def end(self) -> str:
        """End the jobs that still run; return a sentence about them for the model, or ""."""
        running = [job for job in self.started() if job.is_running]
        for job in running:
            await self._jobs.stop(job, by="agent")
        if not running:
            return ""
        listed = "; ".join(f"`{job.shown}`" for job in running)
        return f"[agent-cli: its background commands ended with it: {listed}]"

    async def _news(self) -> Sequence[str]:
        news = await self._jobs.take_news(self.has_started)
        for each in news:
            if each.shown:
                self._announce(Notice("info", reveal(each.shown)))
        return [each.text for each in news]

    def _lost(self, turn: Turn) -> list[str]:
        """Return what the model is told about the jobs of an earlier program."""
        known = {job.tool_call_id for job in self._jobs.all}
        lost = [each for each in _remembered(turn) if each.get("call") not in known]
        if not lost:
            return []
        for each in lost:
            self._jobs.use_ids_above(int(str(each.get("id") or 0)))
        listed = "; ".join(f"{each.get('id')} `{each.get('command')}`" for each in lost)
        return [f"[agent-cli: these jobs ended with the program that ran them: {listed}]"]

    def _remember(self, turn: Turn) -> None:
        """Record the running jobs in the conversation."""
        now: list[Json] = [
            {"call": job.tool_call_id, "id": job.id, "command": job.shown}
            for job in self.started()
            if job.is_running
        ]
        if now != _remembered(turn):
            turn.config.state[JOBS] = now


def _remembered(turn: Turn) -> list[dict[str, Json]]:
    state = turn.config.state.get(JOBS)
    return [each for each in state if isinstance(each, dict)] if isinstance(state, list) else []


def _knows(conversation: Conversation, tool_call_id: str) -> bool:
    try:
        conversation.call(tool_call_id)
    except ConversationError:  # of another conversation, or rewound
        return False
    return True
