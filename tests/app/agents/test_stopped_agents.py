"""Stopping one agent, in any state; the others and the parent continue."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from agent_cli.agents.children import STATUS
from agent_cli.contracts.agents import AgentInfo
from agent_cli.contracts.dialogs import Decision
from agent_cli.contracts.events import ToolCall, ToolExecutionUpdate
from agent_cli.core.call_decisions import AGENT_STOPPED
from tests.app.agents.test_agents import Person, Program, Script, _settings, program, started
from tests.hooks.test_scripts import command, hooks
from tests.messages_api import Gate, reply, tool_use
from tests.waiting import until


def agent_of(run: Program, task: str) -> AgentInfo:
    return next(each for each in run.app.agents.all() if f"({task})" in each.title)


async def test_agent_that_waits_for_a_free_slot_can_be_listed_and_stopped() -> None:
    """Such an agent never asks the model; the next agent gets the slot. Its call's row says so."""
    gate = Gate()
    script = Script(
        go=[started("one", "two", "three"), reply("Done.")],
        one=[reply("first", gate=gate, hold_at=0)],
        three=[reply("third")],
    )
    async with program(script, "--settings", _settings("agents.max_parallel = 1")) as run:
        prompting = asyncio.create_task(run.prompt())
        await until(lambda: len(script.asked) == 2 and len(run.app.agents.all()) == 3)
        waiting = agent_of(run, "two")
        rows = [
            (event.tool_call_id, event.partial_result.details)
            for event in run.events
            if isinstance(event, ToolExecutionUpdate)
        ]
        run.app.agents.stop(waiting.number)
        work = run.app.agents.work(waiting.number)
        await until(lambda: not agent_of(run, "two").is_running)
        gate.open(100)
        result = await prompting

    assert waiting.state.startswith("waiting for its turn")
    assert (waiting.tool_call_id, {STATUS: "waiting for its turn"}) in rows
    assert (work.task, work.prompts) == ("two", ())
    assert run.answers(result) == ["first", AGENT_STOPPED, "third"]


async def test_agent_can_be_stopped_while_its_stop_hook_runs() -> None:
    hooks(SubagentStop=command("touch asked; exec sleep 1004"))
    script = Script(go=[started("one"), reply("Done.")], one=[reply("first")])
    async with program(script) as run:
        prompting = asyncio.create_task(run.prompt())
        await until(Path("asked").exists)
        run.app.agents.stop(1)
        result = await prompting

    assert run.answers(result) == [AGENT_STOPPED]
    assert result.stop_reason == "end_turn"


async def test_agent_can_be_stopped_while_its_question_is_pending() -> None:
    """The question is closed, its call does not run, and the rest of the tree continues."""
    asked = asyncio.Event()

    class Away(Person):
        async def decide_calls(self, calls: Sequence[ToolCall], asker: str) -> Sequence[Decision]:
            asked.set()
            return await asyncio.Future[Sequence[Decision]]()

    script = Script(
        go=[started("write it", agent="general"), reply("Done.")],
        write_it=[reply(tool_use("write", {"path": "a", "content": "b"}))],
    )
    async with program(script, mode="ask", person=Away()) as run:
        prompting = asyncio.create_task(run.prompt())
        await asked.wait()
        run.app.agents.stop(1)
        result = await prompting
        [kept] = run.app.sessions.agents()

    assert run.answers(result) == [AGENT_STOPPED]
    assert (result.stop_reason, kept.problem) == ("end_turn", "")
    assert not Path("a").exists()
