"""A message for the running run: which calls it skips, which it stops, which it lets run."""

import asyncio
from dataclasses import replace
from typing import Literal

import pytest

from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.tooling import Approval, ToolContext
from agent_cli.core.loop_config import LoopConfig
from tests.fakes import (
    LIMIT_S,
    Gate,
    Held,
    answered,
    calls,
    check_run,
    does,
    returns,
    says,
    scripted_agent,
    stream_of,
    texts,
    tool,
    tool_use,
    users,
)

LOOK = tool("look", returns("a tree"))


async def test_steering_queued_while_the_reply_streams_lets_the_first_tool_run() -> None:
    """S0-22, S0-45: one after another, the document looks after each tool, not before the first."""
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


@pytest.mark.parametrize("tool_execution", ["parallel", "sequential"])
async def test_a_call_that_would_ask_is_skipped_when_the_user_speaks_first(
    tool_execution: Literal["parallel", "sequential"],
) -> None:
    """S0-45: it is one of the remaining calls; nobody is asked about what will not run."""
    held = Held()
    danger = replace(tool("danger", held), require_approval=Approval(required=True, reason="?"))
    asks = calls(
        *(tool_use(name, {}, f"t{n}") for n, name in enumerate(["held", "danger", "held"]))
    )
    agent, model, events = scripted_agent(
        asks,
        says("ok"),
        tools=[tool("held", held), danger],
        options=LoopConfig(tool_execution=tool_execution),
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


@pytest.mark.parametrize("steering", ["skip_unstarted", "cancel_running", "after_batch"])
@pytest.mark.parametrize("tool_execution", ["parallel", "sequential"])
async def test_what_a_person_approved_runs_although_a_message_waits(
    tool_execution: Literal["parallel", "sequential"],
    steering: Literal["skip_unstarted", "cancel_running", "after_batch"],
) -> None:
    """S0-45, S2-32: the yes is the later word; messages typed before it are delivered after it."""
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


async def test_steering_after_the_yes_may_still_cancel_what_was_approved() -> None:
    """C3: a message that comes while it runs is the later word again."""
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
