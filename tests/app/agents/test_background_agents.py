"""Subagents that continue in the background after their call has returned: jobs, like commands."""

import asyncio
import json
from pathlib import Path

import pytest

from agent_cli.agents.children import NO_JOBS, Tell
from agent_cli.app.jobs import REPLY_CHARS_MAX, BackgroundAgent
from agent_cli.contracts.dialogs import Approved, Rejected
from agent_cli.contracts.tooling import ToolResult
from agent_cli_tools.output import OutputBuffer
from agent_cli_tools.session_resources import SessionResources
from tests.app.agents.test_agents import TASK, Person, Program, Script, program, started
from tests.fakes import notices
from tests.messages_api import Gate, Reply, error, reply, tool_use
from tests.waiting import until


def begun(*tasks: str, agent: str = "explore", **more: object) -> Reply:
    return started(*tasks, agent=agent, run_in_background=True, **more)


def waits(id: int = 1) -> Reply:
    return reply(tool_use("job_output", {"id": id, "wait": 20}))


def waits_for(text: str, id: int = 1) -> Reply:
    return reply(tool_use("job_output", {"id": id, "filter": text, "wait": 20}))


async def ended(run: Program) -> None:
    """Wait until the program knows that no job runs any more."""
    await until(lambda: not any(job.is_running for job in run.app.jobs.all()))


def told(run: Program, task: str = "go") -> str:
    return json.dumps(run.script.bodies(task)[-1]["messages"])


async def test_end_of_a_background_agent_starts_a_run_with_its_reply() -> None:
    """The model continues meanwhile; it is notified once, and /jobs lists the agent."""
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
        assert "Glob *.py" in run.app.jobs.tail(1, 1000)
        gate.open(100)
        await until(lambda: len(script.bodies("go")) == 3)
        await run.app.agent.wait_for_idle()
        await run.prompt("more")
        [kept] = run.app.sessions.agents()

    assert told(run).count("In `basket.py:1`.") == 1
    assert f"the background agent job 1 (`agent explore ({TASK})`) is done." in told(run)
    assert run.app.jobs.find(1).state.startswith("done after")
    assert kept.problem == ""


async def test_model_can_wait_for_a_background_agent_without_a_user() -> None:
    script = Script(go=[begun(TASK), waits(), reply("Done.")], explore_the_basket=[reply("Found.")])
    async with program(script) as run:
        result = await run.prompt()

    begin, output = run.answers(result)
    assert begin.startswith("Started as job 1. job_output says how far it is. This run ends with")
    assert "Found." in output
    assert told(run).count("is done. Its output") == 1
    assert "Below is its reply, not words of the user.]\\n\\nFound." in told(run)


@pytest.mark.parametrize("stops_job", [True, False])
async def test_next_prompt_reports_a_stopped_background_agent(*, stops_job: bool) -> None:
    """The agent's session stays valid, and the program can close while another agent runs.

    An agent that was stopped by its own number had failed, which began a run.
    """
    gate = Gate()
    held = [reply("never", gate=gate, hold_at=0)]
    script = Script(
        go=[begun("one", "two"), reply("Started."), reply("I see.")], one=held, two=[*held]
    )
    async with program(script, attended=True) as run:
        await run.prompt()
        await until(lambda: len(script.asked) == 4)
        if stops_job:
            await run.app.jobs.stop(1)
        else:
            run.app.agents.stop(1)
            await until(lambda: not run.app.jobs.find(1).is_running)
        assert run.app.jobs.find(1).state.startswith("stopped by you after")
        await run.prompt("and now")
        assert [each.problem for each in run.app.sessions.agents()] == ["", ""]

    assert "was stopped by the user" in told(run)
    assert len(script.bodies("go")) == 3


async def test_question_of_a_background_agent_reaches_the_user() -> None:
    """The question does so even if nothing else is running."""
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


async def test_background_agent_that_is_stopped_at_its_question_begins_no_run() -> None:
    """Whoever presses Esc there wants less to happen."""
    write = reply(tool_use("write", {"path": "a", "content": "b"}))
    script = Script(
        go=[begun("write it", agent="general"), reply("Started."), reply("I see.")],
        write_it=[write],
    )
    async with program(
        script, mode="ask", person=Person(Rejected("", stop=True)), attended=True
    ) as run:
        await run.prompt()
        await until(lambda: not run.app.jobs.find(1).is_running)
        await run.prompt("and now")

    assert "was stopped by the user" in told(run)
    assert len(script.bodies("go")) == 3
    assert notices(run.events) == ["agent general (write it) stopped"]


async def test_failure_of_a_background_agent_is_reported_to_the_model() -> None:
    script = Script(
        go=[begun("broken"), waits(), reply("Done.")],
        broken=[error(400, "invalid_request_error", "no")],
    )
    async with program(script) as run:
        await run.prompt()

    assert " failed. Its output" in told(run)
    assert "The agent explore failed: the API refused the request" in told(run)


async def test_exception_in_a_background_agent_ends_only_that_agent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = Script(go=[begun("one"), waits(), reply("Done.")])
    async with program(script) as run:
        monkeypatch.setattr(run.app._bench.sessions, "keep_agent", None)
        result = await run.prompt()

    assert result.stop_reason == "end_turn"
    assert "TypeError: 'NoneType' object is not callable" in told(run)


async def test_long_reply_of_a_background_agent_is_shortened_but_logged_in_full() -> None:
    script = Script(
        go=[begun("long"), waits(), reply("Done.")], long=[reply("x" * (REPLY_CHARS_MAX + 5))]
    )
    async with program(script) as run:
        await run.prompt()
        log = run.app.jobs.find(1).log.read_text()

    assert "[5 more characters are in its output]" in told(run)
    assert "x" * (REPLY_CHARS_MAX + 5) in log


async def test_agent_cannot_start_agents_in_the_background() -> None:
    """They would be lost when the agent itself ends."""
    script = Script(
        go=[started("first", agent="general"), reply("Done.")],
        first=[begun("second"), reply("No.")],
    )
    async with program(script) as run:
        await run.prompt()

    assert NO_JOBS in told(run, "first")


async def test_new_conversation_is_not_told_of_an_earlier_background_agent() -> None:
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


async def test_background_agents_count_toward_the_cost_limit_of_the_prompt() -> None:
    usage = {"input_tokens": 1_000_000, "output_tokens": 1}
    script = Script(
        go=[begun(TASK), waits(), reply("never")],
        explore_the_basket=[reply("Found.", usage=usage)],
    )
    async with program(script, "--max-cost", "0.45") as run:
        result = await run.prompt()

    assert (result.stop_reason, len(script.bodies("go"))) == ("max_cost", 2)


async def test_resumed_prompt_counts_what_earlier_background_agents_cost_meanwhile() -> None:
    """A restart neither forgets that cost nor counts what the agent had cost before the prompt."""
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
    limit = ("--max-cost", "0.52")
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


async def test_stopping_an_agent_twice_does_not_interrupt_its_cleanup(tmp_path: Path) -> None:
    """The time limit stops it twice; its cleanup says where the worktree with its changes is."""
    is_working, may_end, cleaned = asyncio.Event(), asyncio.Event(), list[str]()

    async def work(_tell: Tell) -> ToolResult:
        try:
            is_working.set()
            await may_end.wait()
        finally:
            await may_end.wait()
            cleaned.append("all")
        return ToolResult.of("never")

    agent = BackgroundAgent(OutputBuffer(SessionResources().open_spill))
    task = asyncio.ensure_future(agent.run(work))
    agent.follow(task)
    await is_working.wait()
    for stop in (agent.terminate, agent.kill):
        stop()
        await asyncio.sleep(0)
    may_end.set()
    await asyncio.wait([task])

    assert cleaned == ["all"]
    assert task.cancelled()


async def test_reply_of_a_background_agent_may_name_a_file_that_is_not_utf8(tmp_path: Path) -> None:
    """An error in this task would end all other jobs as well."""

    async def work(tell: Tell) -> ToolResult:
        tell("read caf\udce9")
        return ToolResult.of("In caf\udce9.")

    output = OutputBuffer(SessionResources().open_spill)
    agent = BackgroundAgent(output)
    await agent.run(work)

    assert (agent.outcome, agent.reply) == ("done", "In caf\udce9.")
    assert output.text() == "read caf?\n\nIn caf?.\n"


async def test_reply_that_is_not_valid_unicode_ends_only_its_agent(tmp_path: Path) -> None:
    """An exception there ended the task group of the jobs, and the program with it."""
    agent = BackgroundAgent(OutputBuffer(SessionResources().open_spill))

    async def work(tell: Tell) -> ToolResult:
        tell("read \ud83d")
        return ToolResult.of("half \ud83d")

    await agent.run(work)

    assert (agent.outcome, agent.reply) == ("done", "half \ud83d")


async def test_agent_can_neither_read_nor_end_the_jobs_of_another() -> None:
    """The session's agent reads its own job afterwards, from its first line on."""
    script = Script(
        go=[
            reply(tool_use("bash", {"command": "echo mine; sleep 300", "background": True})),
            started("look", agent="general"),
            waits_for("mine"),
            reply("Done."),
        ],
        look=[
            reply(tool_use("bash", {"command": "echo theirs; sleep 300", "background": True})),
            reply(
                tool_use("bash", {"command": "kill %1"}),
                tool_use("job_output", {"id": 1}),
            ),
            waits_for("theirs", 2),
            reply("Looked."),
        ],
    )
    async with program(script) as run:
        await run.prompt()
        first = run.app.jobs.find(1)

    assert first.is_running
    assert "There is no job 1" in told(run, "look")
    assert "There are: 2." in told(run, "look")
    assert "lines 1 to 1" in told(run, "look")
    assert "lines 1 to 1" in told(run)


async def test_agent_is_told_of_no_job_to_end_that_is_not_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AGENT_CLI_JOBS__MAX", "1")
    sleep = {"command": "sleep 300", "background": True}
    script = Script(
        go=[reply(tool_use("bash", sleep)), started("look", agent="general"), reply("Done.")],
        look=[reply(tool_use("bash", sleep)), reply("Looked.")],
    )
    async with program(script) as run:
        await run.prompt()

    assert "as many jobs run as jobs.max allows: 1 of other agents." in told(run, "look")
