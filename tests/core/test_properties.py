"""Invariants of every run, whatever the model, the tools and the user do."""

import asyncio
import json
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import ModelError, ToolError
from agent_cli.contracts.events import Event, MessageUpdate, ToolExecutionUpdate
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.provider import Reply, TextDelta
from agent_cli.contracts.timeline import Block, Json, text_block
from agent_cli.contracts.tooling import Allow, Ask, Deny, Tool, ToolContext, ToolResult, Verdict
from agent_cli.core.agent import Agent
from agent_cli.core.api_messages import to_api
from agent_cli.core.loop_config import LoopConfig
from agent_cli.core.message_queue import QueueMode
from agent_cli.core.run import RunResult
from tests.fakes import (
    LIMIT_S,
    MODEL,
    NOT_THE_USERS,
    Held,
    ScriptedModel,
    Step,
    answered,
    asked,
    calls,
    check_run,
    outline,
    pieces,
    problems,
    returns,
    says,
    scripted_agent,
    tool,
    tool_use,
)
from tests.random_runs import broken_streams, loop_options, misbehave, queue_modes
from tests.tables import each_row

STOP_REASONS = [
    "end_turn",
    "tool_use",
    "max_tokens",
    "stop_sequence",
    "pause_turn",
    "refusal",
    "model_context_window_exceeded",
]
BEHAVIOURS = ["return", "raise", "tool error", "hang", "wrong type", "update", "cancel itself"]


async def behave(
    tool_call_id: str, params: dict[str, str], cancel: CancelToken, on_update: ToolContext
) -> ToolResult | str:
    """Behave as the call's input says."""
    await misbehave(params["do"])
    match params["do"]:
        case "wrong type":
            return 42  # type: ignore[return-value]  # a plugin without types
        case "update":
            for part in ("one", "two"):
                on_update(part)
                await asyncio.sleep(0)
        case _:
            pass
    return "done"


def behaving(name: str, *, parallel_safe: bool = True) -> Tool:
    schema: dict[str, Json] = {
        "type": "object",
        "required": ["do"],
        "properties": {"do": {"type": "string"}},
    }
    return replace(
        tool(name, behave, timeout_s=0.02, parallel_safe=parallel_safe, writes=_paths),
        parameters=schema,
    )


def _paths(params: dict[str, str]) -> list[str]:
    return params.get("paths", "").split()


TOOLS = [behaving("work"), behaving("alone", parallel_safe=False)]

inputs: st.SearchStrategy[Mapping[str, Json]] = st.one_of(
    st.fixed_dictionaries(
        {
            "do": st.sampled_from(BEHAVIOURS),
            "paths": st.sampled_from(["", "/a", "/b", "/a /b", "/b /b"]),
        }
    ),
    st.just({"do": 7}),
    st.just({}),
)
names = st.sampled_from(["work", "work", "alone", "missing"])
uses = st.lists(st.tuples(names, inputs), max_size=4)


@st.composite
def replies(draw: st.DrawFn) -> Reply:
    """Draw a reply; ids repeat from reply to reply, as some servers' do."""
    content: list[Block] = [text_block(draw(st.sampled_from(["", " ", "I see.", "One two."])))]
    for index, (name, given_input) in enumerate(draw(uses)):
        content.append(tool_use(name, {**given_input}, f"t{index}"))
    reason = draw(st.sampled_from([*STOP_REASONS, "tool_use", "tool_use"]))
    return Reply("msg", MODEL.id, tuple(content), reason)


Action = Literal["steer", "follow up", "abort"]


@dataclass
class Plan:
    """One random conversation: the model's replies, and the user's action at each event."""

    script: list[Step]
    actions: dict[int, Action]
    options: LoopConfig
    modes: tuple[QueueMode, QueueMode]
    verdicts: list[Verdict]
    approvals: list[bool]
    events: list[Event] = field(default_factory=list[Event])


plans = st.builds(
    Plan,
    script=st.lists(st.one_of(replies(), replies(), broken_streams), min_size=1, max_size=4),
    actions=st.dictionaries(
        st.integers(0, 60), st.sampled_from(["steer", "follow up", "abort"]), max_size=4
    ),
    options=loop_options(0, 1, 3),
    modes=queue_modes,
    verdicts=st.lists(st.sampled_from([Allow(), Allow(), Deny("no"), Ask("sure?")]), max_size=6),
    approvals=st.lists(st.booleans(), max_size=8),
)


@settings(deadline=None, derandomize=True)
@given(plans)
def test_invariants_hold_for_every_random_run(plan: Plan) -> None:
    """S0-15, S0-46, S0-49, S0-51, S1-14, S1-31, S2-40: grammar, pairs, nothing after the end."""
    asyncio.run(asyncio.wait_for(_live_through(plan), LIMIT_S))


async def _live_through(plan: Plan) -> None:
    verdicts, approvals = list(plan.verdicts), list(plan.approvals)
    # The model's reply after the script's end, so that steering always gets an answer.
    model = ScriptedModel(*plan.script, *(says("more") for _ in range(40)))
    options = replace(
        plan.options,
        model=MODEL,
        stream_fn=model,
        tools=TOOLS,
        authorize_tool=lambda call, tool, params: verdicts.pop() if verdicts else Allow(),
    )
    agent = Agent(options, steering_mode=plan.modes[0], follow_up_mode=plan.modes[1])
    agent.subscribe(lambda event: _act(agent, plan, event))

    result = await _run_of(plan, agent.prompt("go"))
    while result.stop_reason == "waiting_for_approval":
        call = agent.conversation.questions()[0].tool_call_id
        yes = approvals.pop() if approvals else False
        decision = agent.approve(call) if yes else agent.reject(call, "rather not")
        if len(agent.conversation.questions()) > 1:
            result = await decision
        else:
            result = await _run_of(plan, decision)
    _check_history(agent, plan.events)

    plan.actions.clear()
    agent.clear_all_queues()
    result = await _run_of(plan, agent.prompt("and now?"))
    while result.stop_reason == "waiting_for_approval":
        result = await agent.reject(agent.conversation.questions()[0].tool_call_id)
    _check_history(agent, plan.events)


def _act(agent: Agent, plan: Plan, event: Event) -> None:
    index = len(plan.events)
    plan.events.append(event)
    match plan.actions.get(index):
        case "steer":
            agent.steer(UserMessage.of(f"steered at {index}"))
        case "follow up":
            agent.follow_up(UserMessage.of(f"followed up at {index}"))
        case "abort":
            agent.abort()
        case _:
            pass


async def _run_of(plan: Plan, running: Coroutine[object, object, RunResult]) -> RunResult:
    """Wait for a run and check its events."""
    before = len(plan.events)
    result = await running
    told = plan.events[before:]
    start = next(i for i, event in enumerate(told) if event.type == "agent_start")
    check_run(told[start:])
    return result


def to_api_of(agent: Agent) -> list[Block]:
    context = agent.conversation.context()
    return to_api([m for m in context if m.role in ("user", "assistant", "toolResult")])  # type: ignore[misc]


def _check_history(agent: Agent, events: list[Event]) -> None:
    assert [p for p in problems(to_api_of(agent)) if p != NOT_THE_USERS] == []
    ids = asked(agent.state.messages)
    assert answered(events) == ids
    for edge in ("start", "end"):
        told = [e.removeprefix(f"tool_execution_{edge} ") for e in outline(events)]
        assert sorted(id for id in told if id in ids) == sorted(ids)
    assert agent.state.pending_tool_calls == frozenset()
    assert agent.state.stream_message is None
    assert not agent.state.is_streaming


def _scenario() -> list[Step]:
    return [
        calls(tool_use("work", {"do": "update"}, "t1"), tool_use("work", {"do": "raise"}, "t2")),
        calls(
            tool_use("alone", {"do": "return"}, "t3"),
            tool_use("missing", {}, "t4"),
            tool_use("work", {"do": "update"}, "t5"),
            text="Next.",
        ),
        says("All is done.", thinking="Hm, yes."),
    ]


EVENTS_OF_SCENARIO = 101


async def test_abort_scenario_has_the_expected_number_of_events() -> None:
    """Otherwise the abort tests would not stop it at each of its events."""
    agent, _, events = scripted_agent(*_scenario(), tools=TOOLS)

    await agent.prompt("go")

    assert len(events) == EVENTS_OF_SCENARIO


async def test_run_can_be_aborted_at_every_event() -> None:
    """S0-42, S0-64, S3-17: agent_end is published, brackets balance, the next prompt is valid."""
    for index in range(EVENTS_OF_SCENARIO):
        await _abort_at(index)


async def _abort_at(index: int) -> None:
    agent, model, events = scripted_agent(*_scenario(), tools=TOOLS)
    stop = agent.subscribe(lambda _event: agent.abort() if len(events) == index + 1 else None)

    result = await asyncio.wait_for(agent.prompt("go"), LIMIT_S)
    stop()

    check_run(events)
    requests = len(model.requests)
    assert sum(event.type == "turn_start" for event in events[: index + 1]) >= requests
    assert result.stop_reason == "aborted" or index > EVENTS_OF_SCENARIO - 8
    assert answered(events) == asked(agent.state.messages)
    assert not agent.state.is_streaming
    assert agent.state.pending_tool_calls == frozenset()
    events.clear()
    model.script = [says("ok")]

    await asyncio.wait_for(agent.prompt("again"), LIMIT_S)

    check_run(events)
    assert "again" in str(model.sent()[-1])


async def test_no_tool_starts_after_an_abort() -> None:
    """S0-64: a stopped run must not make further changes."""
    for index in range(EVENTS_OF_SCENARIO):
        assert await _started_after_an_abort_at(index) == [], index


async def _started_after_an_abort_at(index: int) -> list[str]:
    started_late: list[str] = []
    aborted = False

    async def body(
        tool_call_id: str, params: object, cancel: CancelToken, on_update: ToolContext
    ) -> str:
        if aborted:
            started_late.append(tool_call_id)
        on_update("half")
        await asyncio.sleep(0)
        return "done"

    def stop(_event: Event) -> None:
        nonlocal aborted
        if len(events) == index + 1:
            aborted = True
            agent.abort()

    tools = [tool("work", body), tool("alone", body, parallel_safe=False)]
    agent, _, events = scripted_agent(*_scenario(), tools=tools)
    agent.subscribe(stop)

    await asyncio.wait_for(agent.prompt("go"), LIMIT_S)
    assert aborted
    return started_late


REFUSED = says("I cannot", stop_reason="refusal")


@each_row("queue", ["steer", "follow_up"])
@each_row("asks_first", [False, True])
async def test_message_queued_at_any_event_around_a_refusal_is_sent(
    queue: str, *, asks_first: bool
) -> None:
    """S0-43, S0-48: every request is valid, and the last one ends with the queued message."""
    for index in range(20):
        await _queue_at(index, queue, asks_first=asks_first)


async def _queue_at(index: int, queue: str, *, asks_first: bool) -> None:
    asks = [calls(tool_use("work", {"do": "return"}))] if asks_first else []
    agent, model, events = scripted_agent(*asks, REFUSED, says("ok"), says("ok"), tools=TOOLS)
    message = UserMessage.of("queued")

    def put(_event: Event) -> None:
        if len(events) == index + 1:
            getattr(agent, queue)(message)

    agent.subscribe(put)
    await asyncio.wait_for(agent.prompt("go"), LIMIT_S)
    check_run(events)
    if agent.has_queued_messages():  # it came too late for the run
        await asyncio.wait_for(agent.continue_(), LIMIT_S)

    assert model.sent()[-1]["role"] == "user"
    assert "queued" in str(model.sent()[-1])


@each_row("fault", [ModelError("gone"), RuntimeError("a bug")])
@each_row("position", range(5))
async def test_stream_can_break_at_every_event_and_the_next_prompt_works(
    position: int, fault: Exception
) -> None:
    """S0-39, S0-42: brackets balance; no incomplete message stays in the history."""
    stream = [*pieces(says("one two three"))][:position]
    agent, model, events = scripted_agent([*stream, fault], says("ok"))

    try:
        result = await agent.prompt("go")
    except RuntimeError:
        assert isinstance(fault, RuntimeError)
    else:
        assert (result.stop_reason, result.error) == ("error", str(fault))

    check_run(events)
    assert str(fault) in str(agent.state.error)
    await agent.prompt("again")
    assert model.sent() == [{"role": "user", "content": [text_block("go"), text_block("again")]}]


async def test_abort_cancels_running_tools_and_keeps_finished_results() -> None:
    """S0-64: the model reads which calls were not finished."""
    held = Held()
    script = calls(tool_use("quick", {}, "t1"), tool_use("held", {}, "t2"))
    agent, model, events = scripted_agent(
        script, says("ok"), tools=[tool("quick", returns("fine")), tool("held", held)]
    )
    running = asyncio.ensure_future(agent.prompt("go"))
    await asyncio.wait_for(held.gate("t2").reached.wait(), LIMIT_S)

    agent.abort()
    await asyncio.wait_for(agent.wait_for_idle(), LIMIT_S)
    result = await running

    check_run(events)
    assert result.stop_reason == "aborted"
    assert held.cancelled == ["t2"]
    await agent.prompt("again")
    tool_results = model.sent()[2]["content"]
    assert isinstance(tool_results, list)
    assert tool_results[0] == {
        "type": "tool_result",
        "tool_use_id": "t1",
        "content": [text_block("fine")],
    }
    assert "is_error" in str(tool_results[1])
    assert "tool_use_id': 't2" in str(tool_results[1])


@dataclass
class Interruption:
    """A reply that streams, then a command that reports; the run is stopped at its n-th event."""

    stop_at: int
    seen: list[str] = field(default_factory=list[str])
    count: int = 0

    def on(self, agent: Agent, event: Event) -> None:
        """Note what a screen shows of *event*, and stop the run when it is due."""
        match event:
            case MessageUpdate(event=TextDelta(delta=delta)):
                self.seen.append(delta)
            case ToolExecutionUpdate(partial_result=partial):
                self.seen += partial.text.splitlines()
            case _:
                pass
        self.count += 1
        if self.count == self.stop_at:
            agent.abort()


async def _printing(
    _id: str, _params: object, _cancel: CancelToken, on_update: ToolContext
) -> ToolResult:
    printed = ""
    try:
        for number in range(40):
            printed += f"line {number}\n"
            on_update(printed)
            await asyncio.sleep(0)
    except asyncio.CancelledError:
        raise ToolError(f"Its output until then:\n{printed}") from None
    return ToolResult.of(printed)


async def test_everything_shown_before_an_interrupt_is_in_the_next_request() -> None:
    """At 200 moments of replies and running commands: text and output; the API accepts it."""
    for stop_at in range(1, 201):
        text = "".join(f"word{number} " for number in range(60))
        agent, model, _ = scripted_agent(
            calls(tool_use("print"), text=text),
            says(text),
            says("ok"),
            says("ok"),
            tools=[tool("print", _printing)],
        )
        interruption = Interruption(stop_at)
        agent.subscribe(partial(interruption.on, agent))

        await agent.prompt("go")
        seen = [*interruption.seen]
        await agent.prompt("go on")

        sent = json.dumps(model.sent())
        assert interruption.count > stop_at
        assert seen or stop_at < 20
        assert [piece for piece in seen if json.dumps(piece.strip())[1:-1] not in sent] == []
        assert problems(model.sent()) == []
