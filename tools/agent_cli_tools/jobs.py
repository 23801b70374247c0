"""Background commands and agents: their limits, and their news for the model.

Run `look_after` in the event loop; without it, jobs are checked only when news is requested.
"""

import asyncio
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from agent_cli.contracts import options
from agent_cli.contracts.errors import ToolError

if TYPE_CHECKING:
    from agent_cli_tools.job import Job, JobNews, JobWork, StoppedBy
    from agent_cli_tools.output import LinePattern, OutputBuffer

COMMAND_LIMIT_MAX_S: Final = 600
"""The longest time that a call may give a command; what takes longer is a job."""
LOOK_EVERY_S: Final = 0.25
_ENDED_MAX: Final = 50


def _any(_tool_call_id: str) -> bool:
    return True


class Jobs:
    """The background commands of one process, and foreground commands that could become one."""

    def __init__(
        self,
        *,
        jobs_max: int = options.JOBS_MAX,
        timeout_s: float = options.JOB_TIMEOUT_S,
    ) -> None:
        """Run nothing yet.

        Args:
            jobs_max: Maximum number of running jobs.
            timeout_s: Time limit of each job.
        """
        self._jobs_max = jobs_max
        self.timeout_s = timeout_s
        self._jobs: list[Job] = []
        self._next_id = 1
        self._starting = 0
        self._foreground: list[asyncio.Event] = []
        self._looking = asyncio.Lock()
        self._started = asyncio.Event()

    @property
    def are_allowed(self) -> bool:
        """Whether a command may be a job at all."""
        return self._jobs_max > 0

    @property
    def all(self) -> Sequence["Job"]:
        """The jobs in the order they were started, without jobs that ended long ago."""
        return tuple(self._jobs)

    @property
    def running(self) -> Sequence["Job"]:
        """The running jobs."""
        return [job for job in self._jobs if job.is_running]

    def get(self, id: int) -> "Job | None":
        """Return the job *id*."""
        return next((job for job in self._jobs if job.id == id), None)

    def objection(self, is_own: Callable[[str], bool] = _any) -> str:
        """Return why no further job can be started now, or "".

        Only jobs whose call *is_own* are named.
        """
        running = self.running
        if len(running) + self._starting < self._jobs_max:
            return ""
        listed = [f"{job.id} `{job.shown}`" for job in running if is_own(job.tool_call_id)]
        others = len(running) - len(listed)
        listed += [f"{others} of other agents"] if others else []
        listed += [f"{self._starting} just starting"] if self._starting else []
        return f"as many jobs run as jobs.max allows: {'; '.join(listed)}"

    @contextmanager
    def room(self, output: "OutputBuffer", is_own: Callable[[str], bool] = _any) -> Generator[None]:
        """Prepare for one more job with *output*, and keep its place while the body starts it.

        *is_own* returns whether the job that a call started can be ended by the agent that asks.

        Raises:
            ToolError: There are too many already, or no file can be made for its output.
        """
        if fault := self.objection(is_own):
            raise ToolError(
                f"{fault}. End one of yours with `kill %ID`, alone, or wait for one to end."
            )
        if not output.keep_file():
            raise ToolError("No log file could be made: is the disk full? Free some space.")
        self._starting += 1
        try:
            yield
        finally:
            self._starting -= 1

    def start(
        self,
        tool_call_id: str,
        title: str,
        work: "JobWork",
        output: "OutputBuffer",
        pattern: "LinePattern | None" = None,
        *,
        reply: Callable[[], str] | None = None,
        is_confined: bool = False,
    ) -> "Job":
        """Make *work*, whose output goes to a file, a job; it is stopped at the time limit.

        *reply* returns the answer of an agent, once it has ended; a command may be *is_confined*,
        in a sandbox.
        """
        from agent_cli_tools.job import Job  # with the first job

        assert output.spill_path
        job = Job(
            id=self._next_id,
            tool_call_id=tool_call_id,
            title=title,
            work=work,
            output=output,
            log=output.spill_path,
            pattern=pattern,
            reply=reply,
            is_confined=is_confined,
        )
        self._next_id += 1
        ended = [each for each in self._jobs if not each.is_running]
        forgotten = ended[: max(0, len(ended) - _ENDED_MAX)]
        self._jobs = [*(each for each in self._jobs if each not in forgotten), job]
        job.limit(self.timeout_s)
        self._started.set()
        return job

    def use_ids_above(self, id: int) -> None:
        """Reserve ids up to *id*, which an earlier process used in the same conversation."""
        self._next_id = max(self._next_id, id + 1)

    async def stop(self, job: "Job", by: "StoppedBy") -> None:
        """End *job* and all it started."""
        job.stopped_by = job.stopped_by or by
        await job.work.stop()
        job.note_end()

    @contextmanager
    def foreground(self) -> Generator[asyncio.Event]:
        """Register a command that a call waits for; the event is set to turn it into a job."""
        moved = asyncio.Event()
        self._foreground.append(moved)
        try:
            yield moved
        finally:
            self._foreground.remove(moved)

    @property
    def has_foreground(self) -> bool:
        """Whether a call waits for a command that can become a job."""
        return any(not moved.is_set() for moved in self._foreground)

    def move_to_background(self) -> None:
        """Turn all foreground commands into jobs, so that their calls return.

        Raises:
            ToolError: No command runs, or there are too many jobs already.
        """
        if not self.has_foreground:
            raise ToolError(
                "no command of the model runs, and one behind ! cannot go on in the background"
            )
        if fault := self.objection():
            raise ToolError(fault)
        for moved in self._foreground:
            moved.set()

    async def look_after(self, on_look: Callable[[], None] = lambda: None) -> None:
        """Check jobs regularly for matches and ends, until cancelled.

        Args:
            on_look: Called after each check.
        """
        while True:
            await self._started.wait()
            await self.look()
            on_look()
            if self.running:
                await asyncio.sleep(LOOK_EVERY_S)
            else:
                self._started.clear()

    async def look(self) -> None:
        """Check all jobs."""
        async with self._looking:
            for job in self.all:
                await job.look()

    def take_urgent(self, jobs: Sequence["Job"]) -> bool:
        """Return, once for each match and end in *jobs*, whether it should begin a run."""
        taken = [job.take_urgency() for job in jobs]  # no short circuit: each must be taken
        return any(taken)

    async def take_news(self, is_known: Callable[[str], bool]) -> list["JobNews"]:
        """Return the news, once each, of jobs whose call *is_known*."""
        if not self._jobs:
            return []
        await self.look()
        news: list[JobNews] = []
        for job in self._jobs:
            if is_known(job.tool_call_id):
                news += job.news()
                job.note_delivered()
        return news
