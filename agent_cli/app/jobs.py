"""Background commands of the session: supervise them and show them to the user."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from agent_cli.agents.children import Assignment, Tell
from agent_cli.app.agents.job_announcements import AgentJobs
from agent_cli.app.announcements import Announcements
from agent_cli.contracts.errors import AgentCliError, ConversationError, ToolError, UsageError
from agent_cli.contracts.events import AgentEnd, Event
from agent_cli.contracts.tooling import ToolResult
from agent_cli.contracts.wording import counted
from agent_cli.core.agent import Agent
from agent_cli.system.logger import logger

if TYPE_CHECKING:
    from agent_cli.contracts.listings import JobInfo
    from agent_cli_tools.job import Job
    from agent_cli_tools.workspace import Workspace

_log = logger(__name__)


class JobHost:
    """The jobs of a session; `async with` supervises them.

    A match or an end while the session is idle starts a run, if a user is present and did not stop
    the last one.

    Attributes:
        own_jobs: Informs the session's agent about its own jobs.
        is_attended: Whether a user is present to see runs that start by themselves.
    """

    def __init__(
        self,
        workspace: "Workspace",
        announce: Announcements,
        agent: Callable[[], Agent],
    ) -> None:
        """Supervise no job yet.

        Args:
            workspace: The workspace that runs the jobs.
            announce: Receives warnings.
            agent: Returns the agent to inform, which is built later.
        """
        self.own_jobs = AgentJobs(workspace, announce, agent)
        self._workspace = workspace
        self._jobs = workspace.shared.jobs
        self._end_with_run = workspace.jobs_end_with_run
        self._announce = announce
        self._agent = agent
        self.is_attended: Callable[[], bool] = lambda: False
        self._group = asyncio.TaskGroup()
        self._tasks: set[asyncio.Task[None]] = set()
        self._looked = asyncio.Event()
        self._was_stopped = False
        self._has_news: Callable[[], bool] = lambda: False

    async def __aenter__(self) -> "JobHost":
        await self._group.__aenter__()
        self._agent().subscribe(self._note_end)
        for work in (self._jobs.look_after(self._looked.set), self._wake()):
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
        """Return all jobs, including those of this program's other conversations."""
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
        from agent_cli.app.agents.background import BackgroundAgent  # noqa: PLC0415 - with the first job
        from agent_cli_tools.command_answers import started_agent  # noqa: PLC0415 - with the first job
        from agent_cli_tools.output import OutputBuffer  # noqa: PLC0415 - with the first job

        output = OutputBuffer(self._workspace.shared.open_spill)
        with self._jobs.room(output):
            agent = BackgroundAgent(output)
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

    def _note_end(self, event: Event) -> None:
        if isinstance(event, AgentEnd):
            self._was_stopped = event.stop_reason in ("aborted", "error")
