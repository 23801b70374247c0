"""Background commands in this program: looked after, told to the model, shown to the person."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain

from agent_cli.app.announcements import Announcements
from agent_cli.contracts.errors import AgentCliError, ConversationError, ToolError, UsageError
from agent_cli.contracts.events import AgentEnd, Event, Notice
from agent_cli.contracts.jobs import JobInfo
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import Tool
from agent_cli.core.agent import Agent
from agent_cli.core.conversation import Conversation
from agent_cli.core.turn import Turn
from agent_cli.terminal.sanitize import reveal
from agent_cli_tools.job import Job
from agent_cli_tools.job_output import job_output_tool
from agent_cli_tools.workspace import Workspace

_STATE = "jobs"


class JobHost:
    """A `prepare` contributor and a source of follow-ups; `async with` looks after the jobs.

    A conversation hears of the jobs it started, each match and end once. While nothing goes on and
    a person is there, that begins a run, unless the person stopped the last one. In a conversation
    that is resumed by another program, the model is told that its jobs are gone.

    Attributes:
        is_attended: Whether a person is there who sees runs that nobody asked for.
    """

    def __init__(
        self,
        workspace: Workspace,
        announce: Announcements,
        agent: Callable[[], Agent],
    ) -> None:
        """Tell nothing yet.

        Args:
            workspace: Whose jobs these are.
            announce: Gets warnings.
            agent: Who is told; made later than this.
        """
        self._jobs = workspace.jobs
        self._announce = announce
        self._agent = agent
        self.is_attended: Callable[[], bool] = lambda: False
        self._tool = job_output_tool(workspace)
        self._group = asyncio.TaskGroup()
        self._tasks: list[asyncio.Task[None]] = []
        self._looked = asyncio.Event()
        self._was_stopped = False

    async def __aenter__(self) -> "JobHost":
        await self._group.__aenter__()
        self._agent().subscribe(self._note_end)
        for work in (self._jobs.look_after(self._looked.set), self._wake()):
            self._tasks.append(self._group.create_task(work))
        return self

    async def __aexit__(self, *_failure: object) -> None:
        for task in self._tasks:
            task.cancel()
        await self._group.__aexit__(None, None, None)
        for job in self._jobs.running if self._jobs.end_with_run else ():
            self._announce.warn(f"job {job.id} (`{job.shown}`) still ran; it ends with this run")

    async def __call__(self, turn: Turn) -> None:
        """Offer `job_output` where there are jobs, and tell what became of them."""
        turn.tools += self.tools()
        if not turn.conversation.open_calls():
            for text in chain(self._lost(turn), await self._news(turn.conversation)):
                turn.tell_model(text)
            self._remember(turn)

    async def follow_ups(self) -> Sequence[UserMessage]:
        """Return what happened while the last reply was made."""
        return [UserMessage.of(text) for text in await self._news(self._agent().conversation)]

    def tools(self) -> Sequence[Tool]:
        """Return the tool that reads output, where the conversation has started a job."""
        return [self._tool] if self._own(self._agent().conversation) else []

    def badges(self) -> Sequence[str]:
        """Return a word for the status line: how many run."""
        count = len(self._jobs.running)
        return [f"{count} job{'' if count == 1 else 's'}"] if count else []

    def all(self) -> Sequence[JobInfo]:
        """Return all jobs, those of other conversations of this program too."""
        return [self._info(job) for job in self._jobs.all]

    def find(self, id: int) -> JobInfo:
        """Return the job *id*; raises `UsageError` if there is none."""
        return self._info(self._named(id))

    def tail(self, id: int, bytes_max: int) -> str:
        """Return the end of the output of the job *id*; raises `UsageError` if there is none."""
        return self._named(id).output.last_lines(bytes_max)

    async def stop(self, id: int) -> JobInfo:
        """End the job *id*; raises `UsageError` if there is none."""
        job = self._named(id)
        if job.is_running:
            await self._jobs.stop(job, by="user")
        return self._info(job)

    @property
    def can_move(self) -> bool:
        """Whether a command runs that can go on in the background."""
        return self._jobs.has_foreground

    def move_to_background(self) -> None:
        """Let the command that runs go on as a job; raises `UsageError` if it cannot."""
        try:
            self._jobs.move_to_background()
        except ToolError as error:
            raise UsageError(str(error)) from error

    def _info(self, job: Job) -> JobInfo:
        return job.info(is_own=_knows(self._agent().conversation, job.tool_call_id))

    async def _news(self, conversation: Conversation) -> Sequence[str]:
        news = await self._jobs.take_news(lambda call_id: _knows(conversation, call_id))
        for each in news:
            if each.shown:
                self._announce(Notice("info", reveal(each.shown)))
        return [each.text for each in news]

    def _own(self, conversation: Conversation) -> list[Job]:
        return [job for job in self._jobs.all if _knows(conversation, job.tool_call_id)]

    def _named(self, id: int) -> Job:
        if job := self._jobs.get(id):
            return job
        raise UsageError(f"there is no job {id}; /jobs lists them")

    async def _wake(self) -> None:
        """Begin a run for news that comes while nothing goes on; each piece begins one at most."""
        while True:
            await self._looked.wait()
            self._looked.clear()
            agent = self._agent()
            await agent.wait_for_idle()
            own = self._own(agent.conversation)
            if not self.is_attended() or not self._jobs.take_urgent(own) or self._was_stopped:
                continue
            try:
                with suppress(ConversationError):  # a person must decide first
                    await agent.trigger()
            except AgentCliError as error:
                self._announce.warn(str(error))

    def _note_end(self, event: Event) -> None:
        if isinstance(event, AgentEnd):
            self._was_stopped = event.stop_reason in ("aborted", "error")

    def _lost(self, turn: Turn) -> list[str]:
        """Return what the model should know of jobs of an earlier program."""
        known = {job.tool_call_id for job in self._jobs.all}
        lost = [each for each in _remembered(turn) if each.get("call") not in known]
        if not lost:
            return []
        for each in lost:
            self._jobs.use_ids_above(int(str(each.get("id") or 0)))
        listed = "; ".join(f"{each.get('id')} `{each.get('command')}`" for each in lost)
        return [f"[agent-cli: these jobs ended with the program that ran them: {listed}]"]

    def _remember(self, turn: Turn) -> None:
        """Keep in the conversation which jobs of it run."""
        now: list[Json] = [
            {"call": job.tool_call_id, "id": job.id, "command": job.shown}
            for job in self._own(turn.conversation)
            if job.is_running
        ]
        if now != _remembered(turn):
            turn.config.state[_STATE] = now


def _remembered(turn: Turn) -> list[dict[str, Json]]:
    state = turn.config.state.get(_STATE)
    return [each for each in state if isinstance(each, dict)] if isinstance(state, list) else []


def _knows(conversation: Conversation, tool_call_id: str) -> bool:
    try:
        conversation.call(tool_call_id)
    except ConversationError:  # of another conversation, or gone back from
        return False
    return True
