"""Jobs of the session, commands and agents: supervise them, show them, and announce their news."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from agent_cli.agents.children import AgentStopped, Assignment, Tell
from agent_cli.contracts.errors import AgentCliError, ConversationError, ToolError, UsageError
from agent_cli.contracts.events import AgentEnd, Event, Notice
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import Tool, ToolResult
from agent_cli.contracts.wording import counted
from agent_cli.core.agent import Agent
from agent_cli.core.listeners import HeldEvents
from agent_cli.core.turn import Turn
from agent_cli.policies.permission_rules import COMMAND_TOOL
from agent_cli.system.logger import logger
from agent_cli.system.sanitize import reveal
from agent_cli.system.shapes import objects_in
from agent_cli_tools.bash import job_output_tool

if TYPE_CHECKING:
    from agent_cli.contracts.listings import JobInfo
    from agent_cli_tools.job import Job
    from agent_cli_tools.output import OutputBuffer
    from agent_cli_tools.workspace import Workspace

# The model reads only this much of an agent's reply; the log has all of it.
REPLY_CHARS_MAX: Final = 20_000
_STOP_LIMIT_S: Final = 10.0
_log = logger(__name__)


class JobHost:
    """The jobs of a session; `async with` supervises them.

    A match or an end while the session is idle starts a run, if a user is present and did not stop
    the last one.

    Attributes:
        own_jobs: Informs the session's agent about its own jobs.
        is_attended: Whether a user is present to see runs that start by themselves.
        on_change: Called when the number of running jobs, a badge, has changed.
    """

    def __init__(
        self,
        workspace: "Workspace",
        announce: HeldEvents,
        agent: Callable[[], Agent],
        *,
        until_compacted: Callable[[], Awaitable[None]],
    ) -> None:
        """Supervise no job yet.

        Args:
            workspace: The workspace that runs the jobs.
            announce: Receives warnings.
            agent: Returns the agent to inform, which is built later.
            until_compacted: Waits for a compaction on request: no run begins beside it.
        """
        self._until_compacted = until_compacted
        self.own_jobs = AgentJobs(workspace, announce, agent)
        self._workspace = workspace
        self._jobs = workspace.shared.jobs
        self._end_with_run = workspace.jobs_end_with_run
        self._announce = announce
        self._agent = agent
        self.is_attended: Callable[[], bool] = lambda: False
        self.on_change: Callable[[], object] = lambda: None
        self._group = asyncio.TaskGroup()
        self._tasks: set[asyncio.Task[None]] = set()
        self._looked = asyncio.Event()
        self._count = 0
        self._was_stopped = False
        self._has_news: Callable[[], bool] = lambda: False

    async def __aenter__(self) -> "JobHost":
        await self._group.__aenter__()
        self._agent().subscribe(self._note_end)
        for work in (self._jobs.look_after(self._note_look), self._wake()):
            self._start(work)
        return self

    async def __aexit__(self, *_failure: object) -> None:
        running = self._jobs.running if self._end_with_run else ()
        left = [job for job in running if not job.work.has_ended()]
        for task in [*self._tasks]:
            if not task.cancelling():  # an agent that was just stopped finishes its cleanup
                task.cancel()
        await self._group.__aexit__(None, None, None)
        for job in left:
            self._announce.warn(
                f"job {job.id} (`{job.shown}`) was still running; it ends with this run"
            )

    def wake(self, has_news: Callable[[], bool]) -> None:
        """Begin a run as soon as the session is idle, if *has_news* then."""
        self._has_news = has_news
        self._looked.set()

    def badges(self) -> Sequence[str]:
        """Return the number of running jobs for the status line."""
        count = len(self._jobs.running)
        return [counted(count, "job")] if count else []

    def all(self) -> Sequence["JobInfo"]:
        """Return all jobs, including jobs of this program's other conversations."""
        return [self._info(job) for job in self._jobs.all]

    def find(self, id: int) -> "JobInfo":
        """Return the job *id*; raises `UsageError` if there is none."""
        return self._info(self._named(id))

    def tail(self, id: int, bytes_max: int) -> str:
        """Return the end of the output of the job *id*; raises `UsageError` if there is none."""
        return self._named(id).output.last_lines(bytes_max)

    async def stop(self, id: int) -> "JobInfo":
        """End the job *id*; raises `UsageError` if there is none."""
        job = self._named(id)
        if job.is_running:
            await self._jobs.stop(job, by="user")
        return self._info(job)

    @property
    def can_move(self) -> bool:
        """Whether a running command can be moved to the background."""
        return self._jobs.has_foreground

    def move_to_background(self) -> None:
        """Turn the running command into a job; raises `UsageError` if that is impossible."""
        try:
            self._jobs.move_to_background()
        except ToolError as error:
            raise UsageError(str(error)) from error

    def start_agent(
        self, assignment: Assignment, work: Callable[[Tell], Awaitable[ToolResult]]
    ) -> ToolResult:
        """Run *work* of a subagent as a job; return the tool result for now.

        Raises:
            ToolError: There are too many jobs already, or the disk is full.
        """
        from agent_cli_tools.command_answers import started_agent  # with the first job
        from agent_cli_tools.output import OutputBuffer  # with the first job

        output = OutputBuffer(self._workspace.shared.open_spill)
        with self._jobs.room(output):
            notice = Notice("info", f"{assignment.who} stopped")
            agent = BackgroundAgent(output, lambda: self._announce(notice))
            agent.follow(self._start(agent.run(work)))
            job = self._jobs.start(
                assignment.tool_call_id, assignment.who, agent, output, reply=lambda: agent.reply
            )
        return started_agent(job, ends_with_run=self._end_with_run)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._group.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _info(self, job: "Job") -> "JobInfo":
        return job.info(is_own=self.own_jobs.has_started(job.tool_call_id))

    def _named(self, id: int) -> "Job":
        if job := self._jobs.get(id):
            return job
        raise UsageError(f"there is no job {id}; /jobs lists them")

    async def _wake(self) -> None:
        """Begin a run for news that arrives while idle; each item begins at most one."""
        while True:
            await self._looked.wait()
            self._looked.clear()
            agent = self._agent()
            await self._until_compacted()
            await agent.wait_for_idle()
            is_urgent = self.is_attended() and (
                self._jobs.take_urgent(self.own_jobs.started()) or self._has_news()
            )
            if not is_urgent or self._was_stopped:
                continue
            try:
                with suppress(ConversationError):  # a decision is due first
                    await agent.trigger()
            except AgentCliError as error:
                self._announce.warn(str(error))
            except Exception as error:
                # It must not end the supervision of jobs, and agents in the background with it.
                _log.error("run failed", exc_info=True)
                self._announce.warn(f"{type(error).__name__}: {error} (traceback in the log)")

    def _note_look(self) -> None:
        self._looked.set()
        count, self._count = self._count, len(self._jobs.running)
        if count != self._count:
            self.on_change()

    def _note_end(self, event: Event) -> None:
        if isinstance(event, AgentEnd):
            self._was_stopped = event.stop_reason in ("aborted", "error")


class BackgroundAgent:
    """The work of a job that is an agent; see `job.JobWork`.

    Attributes:
        reply: Its answer, or the reason it failed.
        outcome: `done` or `failed`; "" while it runs, or after it was stopped.
        stood_still_s: Its limit runs on while its calls wait for a person.
    """

    stood_still_s = 0.0

    def __init__(self, output: "OutputBuffer", stopped: Callable[[], None] = lambda: None) -> None:
        """Do nothing yet.

        Args:
            output: Receives a line for each step, and the reply.
            stopped: Called when the user has stopped it by its number or at its question.
        """
        self._task: asyncio.Task[None] | None = None
        self.reply = ""
        self.outcome = ""
        self.put_back: Sequence[str] = ()
        self._output = output
        self._stopped = stopped
        self._last = ""

    def follow(self, task: asyncio.Task[None]) -> None:
        """Store the *task* that executes `run`; its end closes the output."""
        self._task = task
        task.add_done_callback(lambda _task: self._output.close())

    async def run(self, work: Callable[[Tell], Awaitable[ToolResult]]) -> None:
        """Run *work* and store its result; an exception becomes the reply."""
        try:
            answer, self.outcome = (await work(self._note)).text, "done"
        except AgentStopped as error:
            answer = str(error)
            self._stopped()
        except AgentCliError as error:
            answer, self.outcome = str(error), "failed"
        except Exception as error:
            _log.error("background agent failed", exc_info=True)
            answer, self.outcome = f"{type(error).__name__}: {error}", "failed"
        self._output.add(f"\n{answer}\n".encode(errors="replace"))
        left_out = len(answer) - REPLY_CHARS_MAX
        cut = f"\n[{left_out:,} more characters are in its output]" if left_out > 0 else ""
        self.reply = answer[:REPLY_CHARS_MAX] + cut

    def has_ended(self) -> bool:
        """Whether its task has ended."""
        return self._task is None or self._task.done()

    async def drain(self) -> None:
        """Do nothing: all output is complete when the task ends."""

    async def finish(self) -> None:
        """Do nothing: the output is closed already."""

    async def stop(self) -> None:
        """End the task, and the commands it runs."""
        self.kill()
        if self._task:
            await asyncio.wait([self._task], timeout=_STOP_LIMIT_S)

    def terminate(self) -> None:
        """Cancel the task."""
        self.kill()

    def kill(self) -> None:
        """Cancel the task, once: a second time would interrupt its cleanup."""
        if self._task and not self._task.cancelling():
            self._task.cancel()

    def _note(self, line: str) -> None:
        if line != self._last:
            self._last = line
            self._output.add(f"{line}\n".encode(errors="replace"))


JOBS: Final = "jobs"
"""The author of what is announced about jobs, and the name of what is recorded about them."""


class AgentJobs:
    """A `prepare` contributor and a source of follow-ups.

    A conversation is told of the jobs it started, of each match and end once. After another program
    has resumed the conversation, the model is told that its earlier jobs have ended.
    """

    def __init__(
        self, workspace: "Workspace", announce: HeldEvents, agent: Callable[[], Agent]
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
        if any(tool.name == COMMAND_TOOL for tool in turn.tools):
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
        return self._agent().conversation.has_call(tool_call_id)

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
        """Return the text for the model about an earlier program's jobs; tell the user, too.

        They may wait for an agent whose question was open when that program was killed.
        """
        known = {job.tool_call_id for job in self._jobs.all}
        lost = [each for each in _remembered(turn) if each.get("call") not in known]
        if not lost:
            return []
        for each in lost:
            self._jobs.use_ids_above(int(str(each.get("id") or 0)))
        listed = "; ".join(f"{each.get('id')} `{each.get('command')}`" for each in lost)
        text = f"these jobs ended with the program that ran them: {listed}"
        self._announce(Notice("info", reveal(text)))
        return [f"[agent-cli: {text}]"]

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
    return objects_in(turn.config.state.get(JOBS))
