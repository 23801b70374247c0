"""Subagents that continue in the background after their call has returned: jobs, like commands."""

import asyncio
import json

import pytest

from agent_cli.agents.children import NO_JOBS
from agent_cli.app.background_agent import REPLY_CHARS_MAX
from agent_cli.contracts.dialogs import Approved
from tests.app.test_agents import TASK, Person, Program, Script, program, started
from tests.messages_api import Gate, Reply, error, reply, tool_use
from tests.tools.calling import until


def begun(*tasks: str, agent: str = "explore", **more: object) -> Reply:
    return started(*tasks, agent=agent, run_in_background=True, **more)


def waits(id: int = 1) -> Reply:
    return reply(tool_use("job_output", {"id": id, "wait": 20}))


async def ended(run: Program) -> None:
    """Wait until the program knows that no job runs any more."""
    await until(lambda: not any(job.is_running for job in run.app.jobs.all()))


def told(run: Program, task: str = "go") -> str:
    return json.dumps(run.script.bodies(task)[-1]["messages"])


async def test_the_end_of_an_agent_begins_a_run_with_its_reply() -> None:
    """The model continues meanwhile; it is notified once, and /jobs shows the agent as a job."""
    gate = Gate()
    script = Script(
        go=[begun(TASK), reply("Started."), reply("Thanks."), reply("Yes.")],
        explore_the_basket=[
            reply(tool_use("glob", {"pattern": "*.py"})),
            reply("In `basket.py:1`.", gate=gate, hold_at=0),
        ],
    )
    async with program(script, attended=True) as run:
        await run.prompt()
        await until(lambda: len(script.bodies(TASK)) == 2)
        [job] = run.app.jobs.all()
        assert (job.command, job.is_running) == (f"agent explore ({TASK})", True)
        assert "1 job" in run.app.badges()
        assert "glob *.py" in run.app.jobs.tail(1, 1000)
        gate.open(100)
        await until(lambda: len(script.bodies("go")) == 3)
        await run.app.agent.wait_for_idle()
        await run.prompt("more")
        [kept] = run.app.sessions.agents()

    assert told(run).count("In `basket.py:1`.") == 1
    assert f"the background agent job 1 (`agent explore ({TASK})`) is done." in told(run)
    assert run.app.jobs.find(1).state.startswith("done after")
    assert kept.problem == ""


async def test_without_a_person_the_model_waits_for_an_agent() -> None:
    script = Script(go=[begun(TASK), waits(), reply("Done.")], explore_the_basket=[reply("Found.")])
    async with program(script) as run:
        result = await run.prompt()

    begin, output = run.answers(result)
    assert begin.startswith("Started as job 1. job_output says how far it is. This run ends with")
    assert "Found." in output
    assert told(run).count("is done. Its output") == 1


async def test_the_next_prompt_tells_the_model_of_a_stopped_agent() -> None:
    """Its conversation stays valid, and the program can close while another agent is running."""
    gate = Gate()
    held = [reply("never", gate=gate, hold_at=0)]
    script = Script(
        go=[begun("one", "two"), reply("Started."), reply("I see.")], one=held, two=[*held]
    )
    async with program(script, attended=True) as run:
        await run.prompt()
        await until(lambda: len(script.asked) == 4)
        stopped = await run.app.jobs.stop(1)
        assert stopped.state.startswith("stopped by you after")
        await run.prompt("and now")
        assert [each.problem for each in run.app.sessions.agents()] == ["", ""]

    assert "was stopped by the user" in told(run)
    assert len(script.bodies("go")) == 3


async def test_a_question_of_an_agent_in_the_background_reaches_the_person() -> None:
    """Even if nothing else is running."""
    write = reply(tool_use("write", {"path": "a", "content": "b"}))
    script = Script(
        go=[begun("write it", agent="general"), reply("Started."), reply("Thanks.")],
        write_it=[write, reply("Written.")],
    )
    person = Person(Approved())
    async with program(script, mode="ask", person=person, attended=True) as run:
        await run.prompt()
        await until(lambda: len(script.bodies("go")) == 3)
        await run.app.agent.wait_for_idle()

    assert person.asked == [("agent general (write it)", "write")]


async def test_a_failure_in_the_background_is_told() -> None:
    script = Script(
        go=[begun("broken"), waits(), reply("Done.")],
        broken=[error(400, "invalid_request_error", "no")],
    )
    async with program(script) as run:
        await run.prompt()

    assert " failed. Its output" in told(run)
    assert "The agent explore failed: the API refused the request" in told(run)


async def test_a_bug_in_the_background_ends_that_agent_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = Script(go=[begun("one"), waits(), reply("Done.")])
    async with program(script) as run:
        monkeypatch.setattr(run.app._bench.sessions, "keep_agent", None)
        result = await run.prompt()

    assert result.stop_reason == "end_turn"
    assert "TypeError: 'NoneType' object is not callable" in told(run)


async def test_a_long_reply_is_cut_and_all_of_it_can_be_read() -> None:
    script = Script(
        go=[begun("long"), waits(), reply("Done.")], long=[reply("x" * (REPLY_CHARS_MAX + 5))]
    )
    async with program(script) as run:
        await run.prompt()
        log = run.app.jobs.find(1).log.read_text()

    assert "[5 more characters are in its output]" in told(run)
    assert "x" * (REPLY_CHARS_MAX + 5) in log


async def test_an_agents_own_agents_are_waited_for() -> None:
    """Otherwise an agent that ends with its parent's reply would be lost."""
    script = Script(
        go=[started("first", agent="general"), reply("Done.")],
        first=[begun("second"), reply("No.")],
    )
    async with program(script) as run:
        await run.prompt()

    assert NO_JOBS in told(run, "first")


async def test_another_conversation_hears_nothing_of_an_agent() -> None:
    gate = Gate()
    script = Script(
        go=[begun("one"), reply("Started.")],
        new=[reply("Hello.")],
        one=[reply("Secret.", gate=gate, hold_at=0)],
    )
    async with program(script, attended=True) as run:
        await run.prompt()
        await until(lambda: len(script.bodies("one")) == 1)
        run.app.clear()
        gate.open(100)
        await ended(run)
        await run.prompt("new")

    assert "Secret." not in told(run, "new")


async def test_agents_in_the_background_have_the_limit_of_the_prompt_that_goes_on() -> None:
    usage = {"input_tokens": 1_000_000, "output_tokens": 1}
    script = Script(
        go=[begun(TASK), waits(), reply("never")],
        explore_the_basket=[reply("Found.", usage=usage)],
    )
    async with program(script, "--max-cost", "0.45") as run:
        result = await run.prompt()

    assert (result.stop_reason, len(script.bodies("go"))) == ("max_cost", 2)


async def test_a_prompt_that_goes_on_counts_what_an_earlier_ones_agent_cost_meanwhile() -> None:
    """A restart neither forgets that cost nor counts what the agent had cost before."""
    usage = {"input_tokens": 1_000_000, "output_tokens": 1}
    look = tool_use("glob", {"pattern": "*.no"})
    ask = tool_use("write", {"path": "a", "content": "b"})
    spending, asking = Gate(), Gate()
    script = Script(
        go=[
            begun("look"),
            reply("Begun."),
            reply(ask, gate=asking, hold_at=0),
            reply("never"),
        ],
        look=[reply(look), reply(look, usage=usage, gate=spending, hold_at=0)],
    )
    limit = ("--max-cost", "0.55")
    async with program(script, *limit, mode="ask", attended=True) as run:
        await run.prompt()
        await until(lambda: len(script.bodies("look")) == 2)
        prompting = asyncio.create_task(run.prompt("and now"))
        await until(lambda: len(script.bodies("go")) == 3)
        spending.open()
        await until(lambda: not run.app.agents.is_any_working)  # the rest pays for no more
        asking.open()
        assert (await prompting).stop_reason == "waiting_for_approval"
        first, second = run.app.agent.conversation.prompts
        [agent] = run.app.sessions.agents()
        [call] = run.app.agent.conversation.questions()
        since = run.app.sessions.cost_of_agents(second)
        assert (
            500_000 <= since < (agent.usage.cost_microdollars or 0) + agent.usage.held_microdollars
        )
        assert run.app.sessions.cost_of_agents(first) > since
    async with program(script, "--continue", *limit, mode="ask") as run:
        result = await run.app.agent.approve(call.tool_call_id)

    assert (result.stop_reason, len(script.bodies("go"))) == ("max_cost", 3)
