"""Steering: which calls a message for the running run skips, stops or leaves alone."""

import asyncio
from dataclasses import replace
from typing import Literal

from agent_cli import AgentContext, agent_loop, agent_loop_continue
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.tooling import Allow, Approval, ToolContext
from agent_cli.core.loop_config import LoopConfig
from tests.fakes import (
    LIMIT_S,
    LOOK,
    Gate,
    Held,
    ScriptedModel,
    answered,
    calls,
    check_run,
    config,
    does,
    events_of,
    says,
    scripted_agent,
    stream_of,
    texts,
    tool,
    tool_use,
    users,
)
from tests.tables import each_row


async def test_steering_queued_while_the_reply_streams_lets_the_first_tool_run() -> None:
    """S0-22, S0-45: sequential runs check the queue after each tool, not before the first."""
    gate, ran = Gate(), list[str]()

    async def body(on_update: ToolContext) -> str:
        ran.append(on_update.tool_call_id)
        return "done"

    asks = calls(tool_use("work", {}, "t1"), tool_use("work", {}, "t2"))
    agent, model, events = scripted_agent(
        [gate, *stream_of(asks)],
        says("ok"),
        tools=[tool("work", does(body))],
        options=LoopConfig(tool_execution="sequential"),
    )
    running = asyncio.ensure_future(agent.prompt("go"))
    await asyncio.wait_for(gate.reached.wait(), LIMIT_S)

    agent.steer(UserMessage.of("wait"))
    gate.open()
    result = await asyncio.wait_for(running, LIMIT_S)

    assert ran == ["t1"]
    assert texts(result.messages)["t1"] == "done"
    assert texts(result.messages)["t2"].startswith("Skipped: the user sent a message first.")
    assert users(model.requests[-1].messages) == ["go", "wait"]
    check_run(events)


@each_row("tool_execution", ["parallel", "sequential"])
async def test_steering_skips_a_call_that_would_need_approval(
    tool_execution: Literal["parallel", "sequential"],
) -> None:
    """S0-45: the user is not asked about the remaining calls, and this is one of them."""
    held = Held()
    danger = replace(tool("danger", held), require_approval=Approval(required=True, reason="?"))
    asks = calls(
        *(tool_use(name, {}, f"t{n}") for n, name in enumerate(["held", "danger", "held"]))
    )
    agent, model, events = scripted_agent(
        asks,
        says("ok"),
        tools=[tool("held", held), danger],
        options=LoopConfig(tool_execution=tool_execution, approval="defer"),
    )
    running = asyncio.ensure_future(agent.prompt("go"))
    await asyncio.wait_for(held.gate("t0").reached.wait(), LIMIT_S)

    agent.steer(UserMessage.of("leave it"))
    held.gate("t0").open()
    result = await asyncio.wait_for(running, LIMIT_S)

    assert (result.stop_reason, held.started) == ("end_turn", ["t0"])
    assert [text.partition(":")[0] for text in texts(result.messages).values()] == [
        "t0 is done",
        "Skipped",
        "Skipped",
    ]
    assert "app.approval_requested" not in [event.type for event in events]
    assert users(model.requests[-1].messages) == ["go", "leave it"]
    check_run(events)


@each_row("steering", ["skip_unstarted", "cancel_running", "after_batch"])
@each_row("tool_execution", ["parallel", "sequential"])
async def test_approved_call_runs_despite_queued_steering_messages(
    tool_execution: Literal["parallel", "sequential"],
    steering: Literal["skip_unstarted", "cancel_running", "after_batch"],
) -> None:
    """S0-45, S2-32: the approval is newer; earlier messages are delivered after the call."""
    gate, held = Gate(), Held()
    danger = replace(tool("danger", held), require_approval=Approval(required=True, reason="?"))
    asks = calls(tool_use("danger", {}, "t1"), tool_use("look", {}, "t2"))
    agent, model, events = scripted_agent(
        [gate, *stream_of(asks)],
        says("ok"),
        says("ok"),
        tools=[danger, LOOK],
        options=LoopConfig(tool_execution=tool_execution, steering=steering),
    )
    running = asyncio.ensure_future(agent.prompt("go"))
    await asyncio.wait_for(gate.reached.wait(), LIMIT_S)
    agent.steer(UserMessage.of("one"))
    agent.steer(UserMessage.of("two"))
    gate.open()
    assert (await asyncio.wait_for(running, LIMIT_S)).stop_reason == "waiting_for_approval"

    resumed = asyncio.ensure_future(agent.approve("t1"))
    await asyncio.wait_for(held.gate("t1").reached.wait(), LIMIT_S)
    await asyncio.sleep(0)
    held.gate("t1").open()
    result = await asyncio.wait_for(resumed, LIMIT_S)

    assert (held.ended, held.cancelled) == (["t1"], [])
    assert texts(result.messages)["t1"] == "t1 is done"
    assert (texts(result.messages)["t2"] == "a tree") is (steering == "after_batch")
    assert users(model.requests[-1].messages) == ["go", "one", "two"]
    assert users(model.requests[-2].messages) == ["go", "one"]
    assert answered(events) == ["t1", "t2"]


async def test_steering_after_an_approval_can_cancel_the_approved_call() -> None:
    """C3: a message during the call is later than the approval."""
    held = Held()
    danger = replace(tool("danger", held), require_approval=Approval(required=True, reason="?"))
    agent, model, _ = scripted_agent(
        calls(tool_use("danger")),
        says("ok"),
        tools=[danger],
        options=LoopConfig(steering="cancel_running"),
    )
    await agent.prompt("go")
    resumed = asyncio.ensure_future(agent.approve("t1"))
    await asyncio.wait_for(held.gate("t1").reached.wait(), LIMIT_S)

    agent.steer(UserMessage.of("no, stop"))
    await asyncio.wait_for(resumed, LIMIT_S)

    assert held.cancelled == ["t1"]
    assert users(model.requests[-1].messages) == ["go", "no, stop"]


def test_agent_can_be_steered_in_several_event_loops() -> None:
    """S0-59, S0-67: each `asyncio.run` has a new loop; `wait_for_idle` works in each, too."""
    held = Held()
    agent, _, _ = scripted_agent(
        calls(tool_use("held", {}, "t1")),
        says("ok"),
        calls(tool_use("held", {}, "t2")),
        says("ok"),
        tools=[tool("held", held)],
        options=LoopConfig(steering="cancel_running"),
    )

    async def live(id: str) -> str:
        running = asyncio.ensure_future(agent.prompt("go"))
        await asyncio.wait_for(held.gate(id).reached.wait(), LIMIT_S)
        idle = asyncio.ensure_future(agent.wait_for_idle())
        await asyncio.sleep(0)
        agent.steer(UserMessage.of("stop"))
        await asyncio.wait_for(idle, LIMIT_S)
        return (await asyncio.wait_for(running, LIMIT_S)).stop_reason

    assert [asyncio.run(live(id)) for id in ("t1", "t2")] == ["end_turn", "end_turn"]
    assert held.cancelled == ["t1", "t2"]


@each_row("queue", ["steer", "follow_up"])
async def test_callers_message_source_is_used_in_addition_to_the_queue(queue: str) -> None:
    """S0-22, S0-54: messages given to `agent.steer()` must not wait for ever."""
    own = [UserMessage.of("from the callback")]

    def give() -> list[UserMessage]:
        return [own.pop()] if own else []

    agent, model, _ = scripted_agent(
        says("one"),
        says("two"),
        options=LoopConfig(
            get_steering_messages=give if queue == "steer" else None,
            get_follow_up_messages=give if queue == "follow_up" else None,
        ),
    )
    getattr(agent, queue)(UserMessage.of("from the queue"))

    await agent.prompt("go")

    assert users(model.requests[-1].messages) == ["go", "from the queue", "from the callback"]
    assert not agent.has_queued_messages()


async def test_undelivered_message_of_the_callers_source_is_queued_at_the_end() -> None:
    """S0-48: the source handed it over, so no other copy exists."""
    own = [UserMessage.of("keep me")]
    agent, model, _ = scripted_agent(
        calls(tool_use("look", {}, "t1")),
        says("ok"),
        tools=[LOOK],
        options=LoopConfig(
            get_steering_messages=lambda: [own.pop()] if own else [],
            max_rounds=1,
        ),
    )

    await agent.prompt("go")

    assert (own, [message.text for message in agent.clear_steering_queue()]) == ([], ["keep me"])
    assert len(model.requests) == 1


@each_row("whose", ["queue", "own"])
async def test_steering_from_queue_or_callers_source_cancels_running_calls(whose: str) -> None:
    """C3: waiting on one source does not block the other."""
    held, arrived = Held(), asyncio.Event()

    async def wait() -> None:
        await arrived.wait()

    agent, model, _ = scripted_agent(
        calls(tool_use("held", {}, "t1")),
        says("ok"),
        tools=[tool("held", held)],
        options=LoopConfig(
            steering="cancel_running",
            wait_for_steering=wait,
            get_steering_messages=lambda: [UserMessage.of("own")] if _once(arrived) else None,
        ),
    )
    running = asyncio.ensure_future(agent.prompt("go"))
    await asyncio.wait_for(held.gate("t1").reached.wait(), LIMIT_S)

    if whose == "queue":
        agent.steer(UserMessage.of("queue"))
    else:
        arrived.set()
    await asyncio.wait_for(running, LIMIT_S)

    assert held.cancelled == ["t1"]
    assert users(model.requests[-1].messages) == ["go", whose]


def _once(event: asyncio.Event) -> bool:
    """Return whether *event* is set, and clear it."""
    was_set = event.is_set()
    event.clear()
    return was_set


async def test_approved_call_runs_when_steering_skips_an_undecided_one() -> None:
    """S0-45, S2-32: the user's decision still holds."""
    held, queue = Held(), list[UserMessage]()
    danger = replace(tool("danger", held), require_approval=Approval(required=True, reason="?"))
    asks = calls(
        *(tool_use(name, {}, f"t{n}") for n, name in enumerate(["held", "danger", "danger"]))
    )

    async def steered() -> list[UserMessage]:
        return [queue.pop()] if queue else []

    model = ScriptedModel(asks, says("ok"))
    context = AgentContext(tools=[tool("held", held), danger])
    options = replace(config(model), approval="batch", get_steering_messages=steered)
    stream = agent_loop([UserMessage.of("go")], context, options)
    await events_of(stream)
    assert stream.result().stop_reason == "waiting_for_approval"

    resumed = agent_loop_continue(
        replace(context, messages=stream.result().messages),
        replace(options, approval="defer"),
        decisions={"t2": Allow()},
    )
    running = asyncio.ensure_future(events_of(resumed))
    await asyncio.wait_for(held.gate("t0").reached.wait(), LIMIT_S)
    queue.append(UserMessage.of("leave the first"))
    held.gate("t0").open()
    held.gate("t2").open()
    await asyncio.wait_for(running, LIMIT_S)

    assert held.ended == ["t0", "t2"]
    answers = texts(resumed.result().messages)
    assert answers["t1"].startswith("Skipped")
    assert answers["t2"] == "t2 is done"
