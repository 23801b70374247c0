"""A goal is pursued until its check passes, or something ends it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from agent_cli.contracts.events import Event, MessageStart, Notice, TurnStart
from agent_cli.contracts.goals import CheckRun, Goal
from agent_cli.contracts.timeline import Usage
from agent_cli.core.agent import Agent
from agent_cli.core.loop_config import LoopConfig
from agent_cli.core.run import RunResult
from agent_cli.policies.goal_pursuit import Pursuit
from tests.fakes import says, scripted_agent
from tests.tables import each_row

FAILED = CheckRun(exit_code=1, output="1 failed in 0.12s\n[exit 1]")
PASSED = CheckRun(exit_code=0, output="")
HANGS = CheckRun(exit_code=None, output="[timed out]")


@dataclass
class World:
    """An agent with a goal; `checks` are the results of its check, the last one for ever."""

    checks: Sequence[CheckRun]
    replies: Sequence[str] = ("done",) * 20
    trees: Sequence[str] = ("same",)
    has_jobs: bool = False
    agents_cost: int = 0
    one_shot: bool = True
    is_planning: bool = False
    now_s: float = 0.0
    check_takes_s: float = 1.0
    ran: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])
    notices: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self._trees = iter([*self.trees, *[self.trees[-1]] * 99])
        self.agent, self.model, self.events = scripted_agent(
            *(says(text, usage=Usage(10, 5, cost_microdollars=6_000)) for text in self.replies),
            options=LoopConfig(
                prepare=(lambda turn: self.pursuit(turn),),
                get_follow_up_messages=lambda: self.pursuit.follow_ups(),
            ),
        )
        self.pursuit = self.new_pursuit()
        self.agent.subscribe(lambda event: self.pursuit.listen(event))

    def new_pursuit(self) -> Pursuit:
        """Return another program's pursuit, which knows the record only."""
        return Pursuit(
            lambda: self.agent.conversation,
            run_check=self.check,
            has_jobs=lambda: self.has_jobs,
            cost_of_agents=lambda: self.agents_cost,
            tree=self.tree,
            publish=self.publish,
            one_shot=self.one_shot,
            is_planning=lambda: self.is_planning,
            clock=lambda: self.now_s,
        )

    async def check(self, command: str, limit_s: float) -> CheckRun:
        self.ran.append((command, limit_s))
        self.now_s += min(self.check_takes_s, limit_s)
        return self.checks[min(len(self.ran), len(self.checks)) - 1]

    async def tree(self) -> str:
        return next(self._trees)

    def publish(self, event: Event) -> None:
        if isinstance(event, Notice):
            self.notices.append(event.text)

    async def go(self, goal: Goal | None = None) -> RunResult:
        return await self.agent.prompt(self.pursuit.begin(goal or Goal(text="x", check="make")))

    @property
    def said(self) -> list[str]:
        """What the model was told after each of its turns."""
        return [request.messages[-1].text for request in self.model.requests[1:]]


async def test_check_that_passes_at_once_ends_the_run() -> None:
    world = World([PASSED])

    result = await world.go()

    progress = world.pursuit.progress
    assert (result.stop_reason, len(world.ran), progress and progress.state) == (
        "end_turn",
        1,
        "met",
    )
    assert world.notices[-1] == "goal reached: `make` exits with 0 · 1 round"


async def test_model_reads_each_failure_and_goes_on_until_the_check_passes() -> None:
    world = World([FAILED, HANGS, PASSED], trees="abcdefghijk")

    result = await world.go()

    assert (result.stop_reason, result.iterations) == ("end_turn", 3)
    assert world.said[0].startswith(
        "[agent-cli: `make` failed with exit 1 (round 1 of 10)]\n1 failed"
    )
    assert world.said[1].startswith("[agent-cli: `make` did not end (round 2 of 10)]")
    assert world.notices == [
        *("checking the goal: make", "`make` failed with exit 1 · round 1 of 10"),
        *("checking the goal: make", "`make` did not end · round 2 of 10"),
        *("checking the goal: make", "goal reached: `make` exits with 0 · 3 rounds"),
    ]


@each_row(
    ("goal", "reason"),
    [
        (Goal(text="x", check="make", rounds_max=3), "after 3 rounds"),
        (Goal(text="x", check="make", time_max_s=2), "the goal's time of 2 s is used"),
        (Goal(text="x", check="make", cost_max_usd=0.01), "the goal's $0.01 are spent"),
    ],
)
async def test_check_that_never_passes_ends_with_a_limit(goal: Goal, reason: str) -> None:
    """Also if something changes each time."""
    world = World([FAILED], trees=[str(number) for number in range(40)])

    result = await world.go(goal)

    progress = world.pursuit.progress
    assert result.stop_reason == "check_failed"
    assert progress and progress.state == "stopped" and reason in progress.reason
    assert world.pursuit.progress == world.new_pursuit().progress


async def test_cost_of_agents_counts_from_when_the_goal_began() -> None:
    """The goal's own model calls stay far below its limit."""
    world = World([FAILED, PASSED], trees="abcdef", agents_cost=900_000)
    check = world.pursuit._run_check  # pyright: ignore[reportPrivateUsage]

    async def check_while_agents_work(command: str, limit_s: float) -> CheckRun:
        world.agents_cost += 500_000
        return await check(command, limit_s)

    world.pursuit._run_check = check_while_agents_work  # pyright: ignore[reportPrivateUsage]
    enough = await world.go(Goal(text="x", check="make", cost_max_usd=1.2))
    world.ran.clear()
    short = await world.go(Goal(text="y", check="make all", cost_max_usd=0.5))

    assert (enough.stop_reason, short.stop_reason) == ("end_turn", "check_failed")
    assert short.error and "the goal's $0.5 are spent" in short.error


@each_row(
    ("is_planning", "one_shot", "end"),
    [
        (False, True, "no file changed in between"),
        (False, False, "no file changed in between; set it again to go on"),
        (True, True, ": plan mode lets none change, so set the goal again in another mode"),
    ],
)
async def test_same_failure_without_a_change_is_not_tried_a_third_time(
    is_planning: bool, one_shot: bool, end: str
) -> None:
    """Its durations differ; what the check itself writes is no change."""
    again = CheckRun(exit_code=1, output="1 failed in 3.40s\n[exit 1]")
    world = World(
        [FAILED, again],
        trees=["before", "after", "after"],
        is_planning=is_planning,
        one_shot=one_shot,
    )

    result = await world.go()

    assert (result.stop_reason, len(world.ran)) == ("check_failed", 2)
    assert result.error and "twice in the same way" in result.error
    assert result.error.endswith(end)


@each_row(
    ("second", "trees"),
    [
        (CheckRun(exit_code=2, output=FAILED.output), ["a"]),  # another failure
        (FAILED, ["a", "b", "c"]),  # a change
        (FAILED, [""]),  # unknown
    ],
)
async def test_flapping_or_changing_is_no_standstill(second: CheckRun, trees: list[str]) -> None:
    world = World([FAILED, second, PASSED], trees=trees)

    assert (await world.go()).stop_reason == "end_turn"


@each_row("words", ["BLOCKED: I need a key", "Sorry.\n\n**BLOCKED:** I need a key"])
async def test_model_that_says_what_blocks_it_ends_the_goal(words: str) -> None:
    world = World([FAILED], [words])

    result = await world.go()

    assert (result.stop_reason, world.ran) == ("blocked", [])
    assert result.error == "goal not reached: the model says what blocks it: I need a key"


async def test_goal_without_a_check_ends_with_the_models_word() -> None:
    world = World([], ["I began.", "DONE: all 3 pages read"])

    result = await world.go(Goal(text="read all"))

    assert (result.stop_reason, result.iterations) == ("end_turn", 2)
    assert world.notices[-1] == "goal reached, says the model: all 3 pages read"


async def test_goal_that_is_never_reported_as_reached_ends_with_what_to_do() -> None:
    """It ended with "go on, after 2 rounds", which is a word for the model."""
    world = World([], ["I began.", "I go on."], one_shot=False)

    result = await world.go(Goal(text="read all", rounds_max=2))

    assert world.notices == ["the goal is not reported as reached · round 1 of 2"]
    assert result.error == (
        "goal not reached: the goal is not reported as reached after 2 rounds; set it again with"
        " --rounds N to go on"
    )


@each_row("during", ["check", "tree"])
async def test_goal_ended_during_its_check_stays_ended(during: str) -> None:
    """The check goes on, and its failure is no new round."""

    class Ending(World):
        async def check(self, command: str, limit_s: float) -> CheckRun:
            if during == "check":
                self.pursuit.drop()
            return await super().check(command, limit_s)

        async def tree(self) -> str:
            if during == "tree" and self.ran:
                self.pursuit.drop()
            return await super().tree()

    world = Ending([FAILED])

    result = await world.go()

    progress = world.pursuit.progress
    assert progress
    assert (progress.state, progress.reason) == ("stopped", "the user ended it")
    assert (result.stop_reason, len(world.model.requests)) == ("end_turn", 1)


async def test_nothing_is_checked_while_jobs_run() -> None:
    """With a person the next run checks, which the end of the job begins; else the model waits."""
    attended = World([PASSED], has_jobs=True, one_shot=False)
    alone = World([PASSED], has_jobs=True)

    await attended.go()
    waiting = list(attended.ran)
    attended.has_jobs = False
    await attended.agent.prompt("the job has ended")
    result = await alone.go(Goal(text="x", check="make", rounds_max=2))

    assert (waiting, len(attended.ran), alone.ran) == ([], 1, [])
    assert result.stop_reason == "check_failed" and "job_output" in alone.said[0]


async def test_interrupted_goal_goes_on_with_what_is_left_of_its_limits() -> None:
    """Esc, or a kill: another program reads rounds, time and state from the record."""
    world = World([FAILED, FAILED, PASSED], trees="abcdefgh")
    goal = Goal(text="x", check="make", rounds_max=3, time_max_s=100)
    world.check_takes_s = 20
    stops: list[Agent] = []

    async def stop_in_second_check(command: str, limit_s: float) -> CheckRun:
        if world.ran:
            stops.append(world.agent)
            world.agent.abort()
            await asyncio.Event().wait()
        return await World.check(world, command, limit_s)

    world.pursuit._run_check = stop_in_second_check  # pyright: ignore[reportPrivateUsage]
    stopped = await world.go(goal)
    left = world.pursuit.progress
    world.pursuit = world.new_pursuit()
    again = await world.agent.prompt("go on")

    assert (stopped.stop_reason, again.stop_reason) == ("aborted", "end_turn")
    assert left and (left.state, left.rounds, left.elapsed_s) == ("active", 1, 20)
    assert world.ran[1][1] == 80


async def test_same_check_given_again_keeps_its_rounds_and_another_one_begins_anew() -> None:
    world = World([FAILED], trees="abcdef")
    await world.go(Goal(text="x", check="make", rounds_max=1))

    world.pursuit.begin(Goal(text="y", check="make"))
    first = world.pursuit.progress
    world.pursuit.drop()
    dropped = world.pursuit.progress
    await world.agent.prompt("hello")

    assert first and (first.state, first.rounds) == ("active", 0)
    assert dropped and (dropped.state, dropped.reason) == ("stopped", "the user ended it")
    assert len(world.ran) == 1


@pytest.mark.parametrize(
    ("output", "told"),
    [
        ("x" * 6_000, "x" * 6_000),
        (f"{'a' * 1_000}m{'z' * 5_000}", f"{'a' * 1_000}\n[… 1 characters …]\n{'z' * 5_000}"),
    ],
    ids=["at the limit", "beyond"],
)
async def test_long_output_of_a_check_keeps_its_beginning_and_its_end(
    output: str, told: str
) -> None:
    """A test run names its failures at the end, and what it ran at the beginning."""
    world = World([CheckRun(exit_code=1, output=output), PASSED])

    await world.go()

    assert world.said[0].partition("\n")[2] == told


async def test_a_check_without_a_limit_of_its_goal_ends_after_ten_minutes() -> None:
    """The limit of the goal counts where it is shorter."""
    free, limited = World([PASSED]), World([PASSED])

    await free.go()
    await limited.go(Goal(text="x", check="make", time_max_s=599.0))

    assert free.ran == [("make", 600.0)]
    assert limited.ran == [("make", 599.0)]


@each_row(("passed_s", "recorded_s"), [(29.0, 0.0), (30.0, 30.0)])
async def test_time_of_a_goal_is_recorded_twice_a_minute(
    passed_s: float, recorded_s: float
) -> None:
    """A kill loses less than half a minute of what is counted, and the record stays small."""
    world, elapsed = World([PASSED]), list[float]()

    def pass_time(event: Event) -> None:
        if isinstance(event, TurnStart):
            world.now_s += passed_s
        elif isinstance(event, MessageStart) and (progress := world.pursuit.progress):
            elapsed.append(progress.elapsed_s)

    world.agent.subscribe(pass_time)

    await world.go()

    assert elapsed[-1] == recorded_s
