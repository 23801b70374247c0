"""Whether an agent is busy; and that a run ends, whatever a listener does and when."""

import asyncio
import gc
import itertools
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import pytest

from agent_cli import AgentContext, agent_loop
from agent_cli.contracts.errors import AgentBusy, ConversationError, ModelError, NoStreamFunction
from agent_cli.contracts.events import AgentEnd, Event
from agent_cli.contracts.messages import AssistantMessage, UserMessage
from agent_cli.contracts.tooling import Approval
from agent_cli.core.agent import Agent
from agent_cli.core.loop_config import LoopConfig
from agent_cli.core.run import RunResult
from tests.fakes import (
    LIMIT_S,
    LOOK,
    Gate,
    ScriptedModel,
    Step,
    calls,
    check_run,
    config,
    events_of,
    listening,
    returns,
    says,
    stream_of,
    tool,
    tool_use,
    users,
)
from tests.tables import each_row

DANGER = replace(tool("danger", returns("done")), require_approval=Approval(required=True))
Way = Callable[[Agent], Awaitable[RunResult]]


@dataclass(frozen=True)
class Start:
    """A way to begin a run: what happened before, the call, and what the model says."""

    call: Way
    before: tuple[Step, ...] = ()
    then: tuple[Step, ...] = (calls(tool_use("look", {}, "t8")), says("done"))


def _follow_up(agent: Agent) -> Awaitable[RunResult]:
    agent.follow_up("more")
    return agent.continue_()


ASKS = calls(tool_use("look", {}, "t1"), tool_use("danger", {}, "t2"), tool_use("look", {}, "t3"))
STARTS: dict[str, Start] = {
    "prompt": Start(lambda agent: agent.prompt("go")),
    "trigger": Start(lambda agent: agent.trigger()),
    "retry": Start(lambda agent: agent.continue_(), (ModelError("gone"),)),
    "follow_up": Start(_follow_up, (says("hello"),)),
    "approve": Start(lambda agent: agent.approve("t2"), (ASKS,)),
    "reject": Start(lambda agent: agent.reject("t2"), (ASKS,)),
    "asks": Start(lambda agent: agent.prompt("go"), then=(ASKS,)),
    "fails": Start(lambda agent: agent.prompt("go"), then=(ModelError("gone"),)),
}


def _raise(error: type[BaseException]) -> Callable[[Agent], None]:
    def act(_agent: Agent) -> None:
        raise error  # a new one: one for all runs would keep the frames of each

    return act


def _cancel_task(_agent: Agent) -> None:
    task = asyncio.current_task()
    assert task
    task.cancel()


def _change(agent: Agent) -> None:
    """Every one of these is refused in a run, and none of them disturbs it."""
    refused: list[Callable[[], object]] = [
        agent.reset,
        agent.clear_messages,
        lambda: agent.append_message(UserMessage.of("x")),
        lambda: agent.prompt("x").send(None),
        lambda: agent.trigger().send(None),
        lambda: agent.approve("t2").send(None),
    ]
    for change in refused:
        with pytest.raises(AgentBusy):
            change()
    agent.steer("by the way")


class Failed(BaseException):
    """A failure that is no `Exception`, as test frameworks raise it."""


ACTIONS: dict[str, Callable[[Agent], None]] = {
    "abort": Agent.abort,
    "change": _change,
    "cancel": _cancel_task,
    "CancelledError": _raise(asyncio.CancelledError),
    "StopIteration": _raise(StopIteration),
    "GeneratorExit": _raise(GeneratorExit),
    "KeyboardInterrupt": _raise(KeyboardInterrupt),
    "BaseException": _raise(Failed),
}


async def run_once(start: Start, action: Callable[[Agent], None], at: int) -> int:
    """Begin a run with a listener that acts at its event number *at*; return the event count."""
    model = ScriptedModel(*start.before)
    agent = Agent(config(model, tools=[LOOK, DANGER]))
    if start.before:
        await agent.prompt("before")
    agent, events = listening(agent)
    model.script[:] = [*start.then, says("steered")]
    unsubscribe = agent.subscribe(lambda _event: action(agent) if len(events) == at + 1 else None)
    outcome: object = None
    try:
        outcome = await start.call(agent)
        await asyncio.sleep(0)  # a cancellation at the last event arrives here
    except (asyncio.CancelledError, KeyboardInterrupt, Failed) as error:
        outcome = error

    where = f"event {at}: {events[min(at, len(events) - 1)].type}"
    unsubscribe()
    begun = next(i for i, event in enumerate(events) if event.type == "agent_start")
    check_run(events[begun:])
    assert [event.type for event in events].count("agent_start") == 1, where
    assert not agent.state.is_streaming, where
    if isinstance(outcome, KeyboardInterrupt | Failed):
        assert events[-1].type == "agent_end", where
    await asyncio.wait_for(agent.wait_for_idle(), LIMIT_S)
    model.script[:] = [says("fine")] * 4
    if agent.conversation.waiting:
        for call in agent.conversation.questions():
            await agent.reject(call.tool_call_id)
    assert (await agent.prompt("after")).stop_reason == "end_turn", where
    assert {prompt.state for prompt in agent.conversation.prompts} == {"completed"}, where
    return len(events)


@pytest.mark.parametrize(
    ("turns", "step"),
    [(range(1), 3), pytest.param(range(len(ACTIONS)), 1, marks=pytest.mark.slow)],
)
@each_row("start", STARTS)
async def test_a_run_ends_whatever_a_listener_does_at_whichever_event(
    start: str, turns: range, step: int
) -> None:
    """Every `agent_start` has its `agent_end`, the grammar holds, and the next prompt works.

    At every third event, which takes each action in turn; `make soak` does all at each event.
    """
    count = await run_once(STARTS[start], lambda _agent: None, -2)
    actions = [*ACTIONS.values()]

    for turn in turns:
        for at in range(0, count, step):
            await run_once(STARTS[start], actions[(at + turn) % len(actions)], at)


@each_row("start", STARTS)
@each_row("queue", ["steer", "follow_up"])
async def test_a_missing_provider_changes_nothing(start: str, queue: str) -> None:
    """It consumed an approval, dropped a steering message, and a failed trigger blocked all."""
    begin = STARTS[start]
    model = ScriptedModel(*begin.before)
    agent, events = listening(Agent(config(model, tools=[LOOK, DANGER])))
    if begin.before:
        await agent.prompt("before")
    working, before = agent._config, agent.state
    getattr(agent, queue)("queued")
    queued, told = agent.has_queued_messages(), len(events)

    agent._config = replace(working, stream_fn=None)
    with pytest.raises(NoStreamFunction):
        await begin.call(agent)

    assert events[told:] == []
    assert agent.state.messages == before.messages
    assert agent.has_queued_messages() == queued
    agent._config = working
    model.script[:] = [*begin.then, *[says("fine")] * 3]
    assert (await begin.call(agent)).stop_reason in ("end_turn", "waiting_for_approval", "error")


async def test_a_change_is_marked_before_anything_of_it_is_published() -> None:
    """A listener's `reset()` at `app.prompt_started` threw away the conversation being changed."""
    agent = Agent(config(ScriptedModel(says("ok"))))
    refused: list[str] = []

    def meddle(event: Event) -> None:
        if event.type.startswith("app.prompt_"):
            try:
                agent.reset()
            except AgentBusy:
                refused.append(event.type)

    agent.subscribe(meddle)
    agent.append_message(UserMessage.of("a"))
    await agent.trigger()

    assert refused == [
        *("app.prompt_started", "app.prompt_completed"),
        *("app.prompt_started", "app.prompt_output", "app.prompt_output", "app.prompt_completed"),
    ]
    assert users(agent.state.messages) == ["a"]


async def test_two_tasks_cannot_both_begin_a_run() -> None:
    agent, events = listening(Agent(config(ScriptedModel(says("ok")))))

    outcomes = await asyncio.gather(
        *[agent.prompt("go")] * 1, agent.prompt("b"), agent.trigger(), return_exceptions=True
    )

    assert [type(outcome) for outcome in outcomes] == [RunResult, AgentBusy, AgentBusy]
    check_run(events)


async def test_another_thread_can_abort_a_run_and_wait_for_its_end() -> None:
    """The other thread's event loop has its own waits."""
    gate = Gate()
    agent, events = listening(Agent(config(ScriptedModel([*stream_of(says("hi"))[:2], gate]))))
    running = asyncio.ensure_future(agent.prompt("go"))
    await asyncio.wait_for(gate.reached.wait(), LIMIT_S)
    seen: list[str] = []

    async def stop() -> None:
        with pytest.raises(AgentBusy):
            await agent.prompt("mine")
        agent.abort()
        await asyncio.wait_for(agent.wait_for_idle(), LIMIT_S)
        seen.append(events[-1].type)

    thread = threading.Thread(target=lambda: asyncio.run(stop()))
    thread.start()
    result = await asyncio.wait_for(running, LIMIT_S)
    await asyncio.to_thread(thread.join, LIMIT_S)

    assert (result.stop_reason, seen) == ("aborted", ["agent_end"])


async def test_an_event_stream_has_one_reader() -> None:
    """Two tasks that read it ran it twice; so did one that had left early."""
    model = ScriptedModel(says("one"), says("two"))
    stream = agent_loop(["go"], AgentContext(), config(model))

    async def read() -> int:
        return len([event async for event in stream])

    outcomes = await asyncio.gather(read(), read(), return_exceptions=True)

    assert [type(outcome) for outcome in outcomes] == [int, ConversationError]
    left = agent_loop(["go"], AgentContext(), config(model))
    async for _ in left:
        break
    with pytest.raises(
        ConversationError, match=r"^the events of a run can be read only once, by one reader$"
    ):
        await events_of(left)
    assert len(model.requests) <= 2


async def test_calls_left_open_in_a_given_conversation_are_never_run() -> None:
    """A conversation that somebody left running is history, as appended messages are."""
    source = Agent(config(ScriptedModel()))
    source.conversation.begin(UserMessage.of("a"))
    source.conversation.add_reply(calls(tool_use("look", {}, "t1")))
    ran: list[str] = []

    async def look(id: str, _params: object, _cancel: object, _context: object) -> str:
        ran.append(id)
        return "a tree"

    for adopts in (True, False):
        model = ScriptedModel(says("ok"))
        options = config(model, tools=[tool("look", look)])
        agent = Agent(options) if adopts else Agent(options, conversation=source.conversation)
        if adopts:
            agent.adopt(source.conversation)
        await agent.prompt("no, stop")

    assert ran == []


def test_state_has_no_reply_of_an_idle_agent() -> None:
    agent = Agent(LoopConfig(), initial_state=None)
    agent.append_message(AssistantMessage(({"type": "text", "text": "hi"},)))

    assert not agent.state.is_streaming


@each_row("stands_in", ["model", "tool"])
@each_row("comes", ["prompt", "abort", "wait_for_idle", "reset"])
def test_a_run_whose_event_loop_was_closed_is_over(stands_in: str, comes: str) -> None:
    """It was called busy for ever, and `abort()` failed: nothing could be done with the agent."""
    gate = Gate()

    async def hang(*_: object) -> str:
        await gate.pass_through()
        return "never"

    uses = calls(tool_use("hang", {}, "t1"), tool_use("hang", {}, "t2"))
    model = ScriptedModel([gate] if stands_in == "model" else uses)
    agent, events = listening(Agent(config(model, tools=[tool("hang", hang)])))
    loop = asyncio.new_event_loop()

    async def begin() -> asyncio.Task[RunResult]:
        task = asyncio.ensure_future(agent.prompt("go"))
        await asyncio.wait_for(gate.reached.wait(), LIMIT_S)
        return task

    task = loop.run_until_complete(begin())
    loop.close()
    ways: dict[str, Callable[[], object]] = {
        "prompt": lambda: None,
        "abort": agent.abort,
        "wait_for_idle": lambda: asyncio.run(asyncio.wait_for(agent.wait_for_idle(), LIMIT_S)),
        "reset": agent.reset,
    }
    ways[comes]()
    is_over = comes == "prompt" or not agent.state.is_streaming
    model.script[:] = [says("fine")] * 3
    result = asyncio.run(agent.prompt("again"))
    del task
    gc.collect()  # what the loop left behind is thrown away, and touches nothing
    second = asyncio.run(agent.prompt("more"))

    ends = [at for at, event in enumerate(events, 1) if event.type == "agent_end"]
    for begun, end in zip([0, *ends], ends, strict=False):
        check_run([*itertools.dropwhile(lambda e: e.type != "agent_start", events[begun:end])])
    ended = [event for event in events if isinstance(event, AgentEnd)]
    assert [each.stop_reason for each in ended] == ["aborted", "end_turn", "end_turn"]
    assert (result.stop_reason, second.stop_reason) == ("end_turn", "end_turn")
    assert is_over
    assert not agent.state.is_streaming
    assert not agent.conversation.open_calls()
