"""Run the tasks of a batch, some at a time, until each has its result or the budget is used up."""

import asyncio
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from agent_cli.batch import Engine, NotStarted, Origin, TaskRun
from agent_cli.batch.folder import Attempt, BatchFolder
from agent_cli.batch.outcome import (
    cost_of,
    drop_worktree,
    is_final,
    make_worktree,
    result_of,
    trouble_in,
)
from agent_cli.batch.tasks import Task
from agent_cli.contracts.errors import AgentCliError
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.wording import in_microdollars, in_usd
from agent_cli.system import stop_signals
from agent_cli.system.git import GitError
from agent_cli.system.records import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """Options of all tasks.

    Attributes:
        options: Command-line options of each run.
        jobs: The number of parallel runs; 0 for the engine's own.
        cap: Cost limit in micro-dollars of a task that sets none itself; 0 is no limit.
        attempts_max: The number of lost runs after which a task is given up. After as many that the
            world ended, it is left for the next batch.
        outage_wait_s: How long an outage is waited for; 0 ends the batch, to be continued later.
        probe_after_s: The wait before a run tries whether an outage is over; then twice as long.
        shares_folders: Whether several runs may work in one folder, as they change nothing.
    """

    options: tuple[str, ...] = ()
    jobs: int = 0
    cap: int = 0
    attempts_max: int = 3
    outage_wait_s: float = 0
    probe_after_s: float = 5
    shares_folders: bool = False


@dataclass(slots=True)
class BatchState:
    """The progress of a batch.

    Attributes:
        pending: Tasks without a result that are not running.
        left: Those of them that the world kept from ending too often; they need another batch.
        stopped: The signal that stopped it.
        outage: What all runs failed for when it ended, or "".
        last_error: What the last run that the world ended said about it.
    """

    pending: list[Task]
    running: dict[str, Task] = field(default_factory=dict[str, Task])
    left: list[Task] = field(default_factory=list[Task])
    outage: str = ""
    last_error: str = ""
    stopped: signal.Signals | None = None


# All amounts are whole micro-dollars.
class Budget:
    """Spent and reserved amounts together never exceed the limit.

    Attributes:
        limit: 0 means no limit.
        spent: Cost of the runs that have ended.
        held: Reservations of the runs that go on.
    """

    def __init__(self, limit: int) -> None:
        """Spend nothing yet."""
        self.limit = limit
        self.spent = self.held = 0

    @property
    def left(self) -> int:
        """The amount that may still be reserved."""
        return self.limit - self.spent - self.held

    def reserve(self, cap: int, *, tasks: int) -> int | None:
        """Reserve the cost limit of one run; 0 means no limit.

        Args:
            cap: The limit of the task; without one (0) it gets an equal share of what is left.
            tasks: The number of tasks that are not started yet, this one included.

        Returns:
            The amount; None if too little is left.
        """
        if not self.limit:
            return cap
        amount = cap or self.left // max(1, tasks)
        if amount > self.left or (not cap and amount < _LEAST_SHARE):
            return None
        self.held += amount
        return amount

    def settle(self, reserved: int, spent: int) -> None:
        """Replace the reservation of a run by its cost."""
        if self.limit:
            self.held -= reserved
        self.spent += spent


class Batch:
    """Each task gets exactly one result, even if its runs or the batch are killed and restarted."""

    def __init__(
        self,
        tasks: Sequence[Task],
        folder: BatchFolder,
        engine: Engine,
        budget: Budget,
        options: BatchOptions,
        on_result: Callable[[dict[str, Json]], None],
        on_notice: Callable[[str], None] = lambda _text: None,
    ) -> None:
        """Start nothing yet; *on_result* is called with each new line of RESULTS.jsonl."""
        self.state = BatchState([task for task in tasks if task.id not in folder.results])
        self._folder = folder
        self._engine = engine
        self._budget = budget
        self._options = options
        self._on_result = on_result
        self._on_notice = on_notice
        self._outage = Outage(options.outage_wait_s, options.probe_after_s, time.monotonic)
        self._troubled: dict[str, int] = {}
        self._lost: dict[str, int] = {}
        self._failure: AgentCliError | OSError | None = None
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Run until no task is running and none can start; see `state`.

        Raises:
            AgentCliError: The folder cannot be written, or no run can be started.
            OSError: A result cannot be shown; the runs were asked to end.
        """
        with stop_signals.taken(self._stop):
            async with self._engine:
                await self._engine.collect()
                await self._recover()
                await self._run_all()
        if self._failure:
            raise self._failure

    async def _run_all(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                self._changed.clear()
                probe_in_s = self._probe_in_s()
                while not probe_in_s and (started := self._next()):
                    group.create_task(self._attempt(*started))
                if not (self.state.running or probe_in_s):
                    break
                with suppress(TimeoutError):
                    async with asyncio.timeout(probe_in_s or None):
                        await self._changed.wait()

    def _probe_in_s(self) -> float:
        """Return the seconds until a run may try whether an outage is over; 0 if there is none."""
        outage = self._outage
        self.state.outage = outage.trouble if outage.is_hopeless else ""
        return 0 if self._is_ending or outage.is_hopeless else outage.probe_in_s()

    async def _recover(self) -> None:
        """Book the cost of earlier runs, and add results that a killed batch did not write down."""
        tasks = {task.id: task for task in self.state.pending}
        for attempt in self._folder.attempts:
            outcome = self._folder.outcome_of(attempt)
            self._budget.spent += cost_of(attempt, outcome)
            if (task := tasks.get(attempt.id)) is None:
                continue
            if is_final(outcome) and not self._folder.is_taken_back(attempt):
                await self._finish(task, attempt, outcome)
                self.state.pending.remove(tasks.pop(attempt.id))
            elif not is_final(outcome):
                await asyncio.to_thread(drop_worktree, self._folder, attempt)

    def _next(self) -> tuple[Task, int] | None:
        """Take the next task that may start, and reserve its share of the budget."""
        state = self.state
        if self._is_ending or len(state.running) >= (self._options.jobs or self._engine.jobs):
            return None
        outage = self._outage
        if outage.is_on and (outage.is_hopeless or state.running):
            return None
        for at, task in enumerate(state.pending):
            if not self._is_free(task):
                continue
            cap = in_microdollars(task.max_cost_usd or 0) or self._options.cap
            reserved = self._budget.reserve(cap, tasks=len(state.pending))
            if reserved is not None:
                state.running[task.id] = state.pending.pop(at)
                return task, reserved
        return None

    def _is_free(self, task: Task) -> bool:
        """Return whether no run works in the folder of *task*, above it or below it."""
        if task.checkout or self._options.shares_folders:
            return True
        busy = (other.cwd for other in self.state.running.values() if other.checkout is None)
        return not any(
            task.cwd.is_relative_to(folder) or folder.is_relative_to(task.cwd) for folder in busy
        )

    async def _attempt(self, task: Task, reserved: int) -> None:
        """Run *task* once; the task of a lost run returns to the end of the queue."""
        try:
            await self._run(task, reserved)
        except (AgentCliError, OSError) as error:
            if self._failure is None:  # asked to end twice, runs end without a result
                self._failure = error
                self._engine.stop()
        finally:
            self.state.running.pop(task.id, None)
            self._changed.set()

    async def _run(self, task: Task, reserved: int) -> None:
        number = self._folder.runs_of(task.id) + 1
        attempt = Attempt(task.id, number, task.fingerprint, reserved)
        if (source := task.checkout) is not None:
            attempt = replace(attempt, repository=str(source.repository), commit=source.commit)
        prompt = self._folder.begin(attempt, task.prompt)
        error = await self._start(task, attempt, prompt)
        outcome = self._folder.outcome_of(attempt)
        self._budget.settle(reserved, cost_of(attempt, outcome))
        if trouble := trouble_in(outcome):
            self.state.last_error = str((outcome or {}).get("error", ""))
            await self._put_off(task, attempt, trouble)
            return
        self._outage.note("")
        lost = self._lost[task.id] = self._lost.get(task.id, 0) + 1
        is_given_up = lost >= self._options.attempts_max and not self._is_ending
        if is_final(outcome) or is_given_up:
            await self._finish(task, attempt, outcome if is_final(outcome) else None, error)
        else:
            await asyncio.to_thread(drop_worktree, self._folder, attempt)
            self.state.pending.append(task)

    async def _put_off(self, task: Task, attempt: Attempt, trouble: str) -> None:
        """Queue *task* again, whose run the world ended; during an outage that is not its fault."""
        await asyncio.to_thread(drop_worktree, self._folder, attempt)
        was_on = self._outage.is_on
        self._outage.note(trouble)
        if self._outage.is_on:
            self.state.pending.insert(0, task)
            if not was_on and self._options.outage_wait_s and not self._is_ending:
                last_error = f"the last {ALIKE} runs all failed ({trouble})"
                self._on_notice(f"{last_error}: waiting, and asking again with one run at a time")
            return
        self._troubled[task.id] = self._troubled.get(task.id, 0) + 1
        is_left = self._troubled[task.id] >= self._options.attempts_max
        (self.state.left if is_left else self.state.pending).append(task)

    async def _start(self, task: Task, attempt: Attempt, prompt: Path) -> str:
        """Run *attempt* to its end; return the reason if its folder cannot be made, else ""."""
        try:
            await self._engine.run(await self._work(task, attempt, prompt))
        except GitError as fault:
            self._folder.leave_unstarted(attempt)
            return str(fault)
        except NotStarted:
            self._folder.leave_unstarted(attempt)
            if not self._is_ending:
                raise
        return ""

    async def _work(self, task: Task, attempt: Attempt, prompt: Path) -> TaskRun:
        reserved = attempt.reserved
        limit = (f"--max-cost={in_usd(reserved):.6f}",) if reserved else ()
        options = (*self._options.options, *task.options, *limit)
        cwd = task.cwd
        if (source := task.checkout) is not None:
            inside = task.cwd.relative_to(source.repository.resolve())
            if self._engine.copies:
                origin = Origin(source.repository, attempt.commit, inside, task.prompt)
                return TaskRun(options, task.cwd, prompt.parent, origin)
            cwd = await asyncio.to_thread(make_worktree, self._folder, attempt) / inside
        return TaskRun((*options, f"--prompt-file={prompt}"), cwd, prompt.parent)

    async def _finish(
        self, task: Task, attempt: Attempt, outcome: dict[str, Json] | None, error: str = ""
    ) -> None:
        result = await asyncio.to_thread(result_of, task, self._folder, attempt, outcome, error)
        self._folder.add_result(result)
        self._on_result(result)

    @property
    def _is_ending(self) -> bool:
        return bool(self.state.stopped or self._failure)

    def _stop(self, number: signal.Signals) -> None:
        self.state.stopped = self.state.stopped or number
        self._engine.stop()
        self._changed.set()


# Less does not pay for one model call, so the run would end at its limit at once.
_LEAST_SHARE: Final = 10_000

ALIKE: Final = 3
"""So many runs in a row that fail for the same reason are an outage."""
_WAIT_MAX_S: Final = 60.0


@dataclass(slots=True)
class Outage:
    """The runs that failed alike since the last run with another end.

    Attributes:
        wait_max_s: How long an outage is waited for; 0 ends the batch at once.
        probe_after_s: The wait before the first probe; each later one is twice as long.
        clock: Seconds, from any moment.
        trouble: What the runs failed for, or "".
    """

    wait_max_s: float
    probe_after_s: float
    clock: Callable[[], float]
    trouble: str = ""
    _alike: int = 0
    _began_s: float = 0.0
    _wait_s: float = 0.0
    _probe_at_s: float = 0.0

    def note(self, trouble: str) -> None:
        """Note the end of a run, and the failed part of the world; "" if none failed."""
        now = self.clock()
        if not trouble or trouble != self.trouble:
            self._alike, self._began_s, self._wait_s = 0, now, self.probe_after_s
        self.trouble = trouble
        self._alike += bool(trouble)
        # The runs that were under way when it began say nothing new.
        if self.is_on and now >= self._probe_at_s:
            self._probe_at_s = now + self._wait_s
            self._wait_s = min(self._wait_s * 2, _WAIT_MAX_S)

    @property
    def is_on(self) -> bool:
        """Whether all runs fail."""
        return self._alike >= ALIKE

    @property
    def is_hopeless(self) -> bool:
        """Whether it has lasted longer than the batch waits."""
        return self.is_on and self.clock() - self._began_s >= self.wait_max_s

    def probe_in_s(self) -> float:
        """Return the seconds until one run may try whether it is over; 0 if it may now."""
        return max(0.0, self._probe_at_s - self.clock()) if self.is_on else 0.0
