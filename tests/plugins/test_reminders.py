"""Reminders: set by a tool, delivered by a generated prompt or into the running run."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime

from agent_cli.contracts.errors import AgentCliError, ModelError
from agent_cli.contracts.events import AgentEnd, AgentStart, MessageEnd, ToolExecutionEnd
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import Approval, Tool
from agent_cli.core.conversation import Conversation
from agent_cli.plugins.api import Plugin, PluginContext
from agent_cli.plugins.reminders import WAITING, PendingReminders, Reminder, reminders
from agent_cli.plugins.states import PluginStates
from tests.fakes import Gate, Step, calls, returns, says, stream_of, tool, tool_use
from tests.plugins.contributing import PATIENCE_S, Contributing, tool_results
from tests.tables import each_row
from tests.waiting import StoppedClock

START_MS = 1_800_000_000_000


class Clock:
    """A clock that a test moves, and that counts its readings."""

    def __init__(self) -> None:
        self.now_ms = START_MS
        self._looked = asyncio.Event()

    def __call__(self) -> int:
        self._looked.set()
        return self.now_ms

    async def looked_at(self, times: int) -> None:
        """Return once the clock has been read *times* more."""
        for _look in range(times):
            self._looked.clear()
            await self._looked.wait()


def with_reminders(clock: Clock, *script: Step, tools: list[Tool] | None = None) -> Contributing:
    return Contributing([reminders(clock, look_again_s=0.005)], *script, tools=tools or [])


@asynccontextmanager
async def watching(run: Contributing) -> AsyncGenerator[None]:
    async with asyncio.timeout(PATIENCE_S), run.plugins:
        run.plugins.start(run.agent)
        yield


async def runs(run: Contributing, count: int) -> None:
    """Return once *count* runs have ended."""
    ended = asyncio.Event()

    def count_ends(_event: object) -> None:
        if sum(isinstance(event, AgentEnd) for event in run.events) >= count:
            ended.set()

    unsubscribe = run.agent.subscribe(count_ends)
    count_ends(None)
    await ended.wait()
    unsubscribe()
    await run.agent.wait_for_idle()


def remind(given: Json, id: str = "t1") -> Step:
    return calls(tool_use("remind", given, id))


def utc(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat()


def waiting(conversation: Conversation) -> list[Reminder]:
    return WAITING.read(PluginStates(conversation, {}, lambda _event: None)).waiting


def last_words(run: Contributing) -> list[str]:
    """Return the texts of the last message sent."""
    content = run.model.sent()[-1]["content"]
    assert isinstance(content, list)
    return [str(block.get("text")) for block in content if isinstance(block, dict)]


async def test_a_reminder_starts_a_prompt_without_input() -> None:
    """S2-20: it triggers the agent when due and idle; the text comes at the end, once."""
    clock = Clock()
    run = with_reminders(
        clock, remind({"after_s": 60, "text": "check the oven"}), says("set"), says("checked")
    )
    async with watching(run):
        await run.prompt()
        assert [each.at_ms for each in waiting(run.agent.conversation)] == [START_MS + 60_000]
        clock.now_ms += 60_000
        await runs(run, 2)

    first, second = run.agent.conversation.prompts
    assert (first.input is None, second.input is None) == (False, True)
    assert last_words(run) == ["(no input: go on)", "[A reminder you set is due] check the oven"]
    assert waiting(run.agent.conversation) == []
    assert run.notices() == []  # not a byte of the cached prefix has changed
    assert run.warnings == []


async def test_reminder_due_during_a_run_is_delivered_into_that_run() -> None:
    """The next model call includes it; no separate prompt follows."""
    clock = Clock()
    run = with_reminders(clock, remind({"after_s": 0, "text": "now"}), says("heard"))
    async with watching(run):
        await run.prompt()
        await runs(run, 1)

    assert last_words(run)[-1] == "[A reminder you set is due] now"
    assert len(run.model.requests) == 2


async def test_reminder_waits_for_the_current_run_to_end() -> None:
    """There are never two runs at once."""
    clock, gate = Clock(), Gate()
    run = with_reminders(
        clock,
        remind({"after_s": 60, "text": "later"}),
        says("set"),
        [gate, *stream_of(says("busy"))],
        says("reminded"),
    )
    async with watching(run):
        await run.prompt()
        async with asyncio.TaskGroup() as group:
            group.create_task(run.prompt("long work"))
            await gate.reached.wait()
            clock.now_ms += 60_000
            gate.open()
        await runs(run, 3)

    shown = [type(event) for event in run.events if isinstance(event, AgentStart | AgentEnd)]
    assert shown == [AgentStart, AgentEnd] * 3


async def test_reminder_waits_for_a_pending_approval() -> None:
    """No message can be sent before the question is answered."""
    clock = Clock()
    asking = replace(tool("drop", returns("dropped")), require_approval=Approval(True, "sure?"))
    run = with_reminders(
        clock,
        remind({"after_s": 60, "text": "later"}),
        calls(tool_use("drop", id="t2")),
        says("dropped"),
        tools=[asking],
    )
    async with watching(run):
        await run.prompt()
        clock.now_ms += 60_000
        await clock.looked_at(3)
        assert len(run.model.requests) == 2
        await run.agent.approve("t2")

    assert last_words(run)[-1] == "[A reminder you set is due] later"
    told = [
        event
        for event in run.events
        if isinstance(event, ToolExecutionEnd)
        or (isinstance(event, MessageEnd) and "reminder" in str(event.message))
    ]
    # The run resumed by a decision begins with the call that was decided.
    assert [type(event) for event in told[-2:]] == [ToolExecutionEnd, MessageEnd]


async def test_reminder_survives_a_restart() -> None:
    """S2-42: it is part of the conversation's state and delivered when that is resumed."""
    clock = Clock()
    before = with_reminders(clock, remind({"after_s": 60, "text": "later"}), says("set"))
    async with watching(before):
        await before.prompt()
    clock.now_ms += 3_600_000

    after = Contributing(
        [reminders(clock, look_again_s=0.005)], says("done"), conversation=before.agent.conversation
    )
    async with watching(after):
        await runs(after, 1)

    assert last_words(after)[-1] == "[A reminder you set is due] later"


async def test_reminder_whose_prompt_fails_is_not_repeated() -> None:
    """It has been delivered: the next prompt, or "go on", answers it."""
    clock = Clock()
    run = with_reminders(
        clock,
        remind({"after_s": 60, "text": "later"}),
        says("set"),
        ModelError("the server is away"),
        says("now I know"),
    )
    async with watching(run):
        await run.prompt()
        clock.now_ms += 60_000
        await runs(run, 2)
        await run.prompt("and?")

    assert "[A reminder you set is due] later" in str(run.model.sent())
    assert len(run.model.requests) == 4


async def test_reminder_prompt_that_cannot_start_is_not_retried() -> None:
    """Otherwise a limit that ends each run at once would end one run after the other."""
    clock = Clock()
    used_up: list[str] = []

    def refuse(_ctx: PluginContext) -> None:
        if used_up:
            raise AgentCliError(used_up[0])

    run = Contributing(
        [Plugin(name="quota", prepare=refuse), reminders(clock, look_again_s=0.005)],
        remind({"after_s": 60, "text": "later"}),
        says("set"),
    )
    async with watching(run):
        await run.prompt()
        used_up.append("nothing is left of the quota")
        clock.now_ms += 60_000
        await runs(run, 2)
        await clock.looked_at(3)

    assert sum(isinstance(event, AgentEnd) for event in run.events) == 2
    assert len(waiting(run.agent.conversation)) == 1


async def test_reminder_comes_within_a_minute_of_a_changed_clock() -> None:
    """A machine that slept, or a clock that was set, moves no timer of a running program."""
    wall, timers = Clock(), StoppedClock()
    run = Contributing(
        [reminders(wall)], remind({"after_s": 7_200, "text": "later"}), says("set"), says("ok")
    )
    async with watching(run):
        await run.prompt()
        await wall.looked_at(1)
        await timers.pass_s(0)
        wall.now_ms += 7_200_000
        await timers.pass_s(59.5)
        early = len(run.model.requests)
        await timers.pass_s(1.0)
        late = len(waiting(run.agent.conversation))
        assert (early, late) == (2, 0)  # here: without a second run the next line never ends
        await runs(run, 2)

    assert last_words(run)[-1] == "[A reminder you set is due] later"


async def test_reminder_can_be_set_for_a_time_of_day() -> None:
    """The format is ISO 8601; without an offset it is local time."""
    clock = Clock()
    at = datetime.fromtimestamp(START_MS / 1000 + 90, UTC).isoformat()
    run = with_reminders(clock, remind({"at": at, "text": "later"}), says("set"))
    await run.prompt()

    assert waiting(run.agent.conversation) == [Reminder(at_ms=START_MS + 90_000, text="later")]
    assert tool_results(run)[0].startswith("Reminder set for 20")


@each_row("at", ["0001-01-01T00:00:00", "0001-12-31T23:59:59Z", "0002-01-01", "1969-12-31"])
async def test_reminder_for_a_time_in_the_past_is_due_now(at: str) -> None:
    run = with_reminders(Clock(), remind({"at": at, "text": "late"}), says("set"), says("done"))
    await run.prompt()

    assert tool_results(run)[0].startswith("Reminder set for 20")


@each_row(
    ("given", "fault"),
    [
        ({"text": "x"}, "give either after_s or at"),
        ({"text": "x", "after_s": 1, "at": "2030-01-01T00:00"}, "give either after_s or at"),
        ({"text": "x", "after_s": -1}, "after_s: Input should be greater"),
        ({"text": "", "after_s": 1}, "text: String should have at least"),
        ({"text": "x" * 2_001, "after_s": 1}, "text: String should have at most 2000"),
        ({"text": "x", "after_s": 366 * 86_400 + 1}, "after_s: Input should be less than"),
        (
            {"text": "x", "at": utc(START_MS / 1000 + 366 * 86_400 + 1)},
            "`at` can be at most 366 days from now.",
        ),
        ({"text": "x", "at": "9998-12-31T23:59:59"}, "`at` can be at most 366 days from now."),
        ({"text": "x", "at": "9999-12-31T23:59:59"}, "`at` can be at most 366 days from now."),
    ],
)
async def test_invalid_remind_call_is_an_error_for_the_model(given: Json, fault: str) -> None:
    """An invalid call sets nothing."""
    run = with_reminders(Clock(), remind(given), says("oh"))
    await run.prompt()

    assert fault in tool_results(run)[0]
    assert waiting(run.agent.conversation) == []


@each_row(
    "given",
    [
        {"text": "x" * 2_000, "after_s": 1},
        {"text": "x", "after_s": 366 * 86_400},
        {"text": "x", "at": utc(START_MS / 1000 + 366 * 86_400)},
    ],
    ids=["longest", "latest", "latest at"],
)
async def test_longest_text_and_the_latest_time_are_kept(given: Json) -> None:
    """A year ahead, also in a leap year."""
    run = with_reminders(Clock(), remind(given), says("set"))
    await run.prompt()

    assert len(waiting(run.agent.conversation)) == 1


async def test_number_of_waiting_reminders_is_limited() -> None:
    """A model in a loop must not fill the record."""
    full = PendingReminders(waiting=[Reminder(at_ms=START_MS + 1, text="x")] * 20)
    run = with_reminders(Clock(), remind({"after_s": 5, "text": "x"}), says("oh"))
    kinds = {"reminders": WAITING}
    WAITING.write(PluginStates(run.agent.conversation, kinds, lambda _event: None), full)
    await run.prompt()

    assert tool_results(run) == ["20 reminders wait already; no more can be set."]
