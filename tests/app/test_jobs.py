"""Background commands in the assembled program: who is notified, and when a run starts."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest

from agent_cli.app.app import App
from agent_cli.app.arguments import parse_arguments
from agent_cli.app.startup import start
from agent_cli.contracts.dialogs import ServerDialogs
from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.events import AgentStart, Event, Notice
from agent_cli.contracts.messages import ToolResultMessage
from tests.e2e.program import said_by_user
from tests.messages_api import FakeMessagesApi, Gate, reply, serve_in_thread, tool_use
from tests.messages_api.script import Answer
from tests.repl.test_model_dialogs import asked
from tests.waiting import until

YOLO = ("--no-mcp", "--permission-mode", "yolo", "--no-session")
JOB = tool_use(
    "bash", {"command": "until [ -e go ]; do sleep 0.02; done; exit 3", "background": True}
)


class Here:
    """An app with a person present, its server, and the number of runs."""

    def __init__(self, app: App, api: FakeMessagesApi) -> None:
        self.app = app
        self.api = api
        self.runs = 0
        app.agent.subscribe(self._count)

    def _count(self, event: Event) -> None:
        self.runs += isinstance(event, AgentStart)

    def go(self) -> None:
        """Let the job end."""
        (self.app.workspace / "go").touch()

    async def ended(self) -> None:
        """Wait until the program knows that the job has ended."""
        await until(lambda: not any(job.is_running for job in self.app.jobs.all()))

    async def until_run(self, number: int) -> None:
        """Wait until the run *number* has ended."""
        await until(lambda: self.runs >= number)
        await self.app.agent.wait_for_idle()

    def told(self) -> str:
        """Return the user's texts in the model's last request."""
        return "\n".join(said_by_user(self.api.requests[-1].body))


class NoServers:
    """A program without MCP servers."""

    def servers_changed(self) -> None:
        """Show nothing."""


@asynccontextmanager
async def here(
    monkeypatch: pytest.MonkeyPatch,
    *script: Answer,
    attended: bool = True,
    words: Sequence[str] = YOLO,
) -> AsyncGenerator[Here]:
    with serve_in_thread(*script) as api:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.base_url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        app = App(start(parse_arguments(words), may_ask=False), one_shot=False)
        async with app:
            if attended:
                app.answer(cast("ServerDialogs", NoServers()), asked()[0])
            yield Here(app, api)


async def test_end_of_a_job_starts_a_run_while_the_agent_is_idle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only once: an end that was reported is not reported again."""
    async with here(monkeypatch, reply(JOB), reply("Up."), reply("Seen.")) as now:
        await now.app.agent.prompt("go")
        now.go()
        await now.until_run(2)

        assert "ended with exit 3" in now.told()
        await now.ended()
        await asyncio.sleep(0)
        assert now.runs == 2
        assert len(now.api.requests) == 3


async def test_job_that_has_just_ended_is_not_reported_as_running(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The program looks at its jobs four times a second; a run of `-p` may end in between."""
    monkeypatch.setattr("agent_cli_tools.jobs.LOOK_EVERY_S", 1_000.0)
    heard: list[Event] = []
    with serve_in_thread(reply(JOB), reply("Up.")) as api:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.base_url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        async with App(start(parse_arguments(YOLO), may_ask=False), one_shot=True) as app:
            app.agent.subscribe(heard.append)
            await app.agent.prompt("go")
            (app.workspace / "go").touch()
            [job] = app._bench.session.workspace.shared.jobs.running
            await until(job.work.has_ended)

    assert not [each for each in heard if isinstance(each, Notice) and "running" in each.text]


async def test_bug_in_a_run_that_a_job_started_does_not_end_the_supervision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The user reads of it, and later ends are still reported."""
    later = tool_use(
        "bash", {"command": "until [ -e later ]; do sleep 0.02; done", "background": True}
    )
    script = (reply(JOB), reply("Up."), reply(later), reply("Up."), reply("Seen."))
    told: list[str] = []

    async def fail() -> None:
        raise RuntimeError("a bug")

    async with here(monkeypatch, *script) as now:
        now.app.agent.subscribe(
            lambda event: told.append(event.text) if isinstance(event, Notice) else None
        )
        with monkeypatch.context() as broken:
            broken.setattr(now.app.agent, "trigger", fail)
            await now.app.agent.prompt("go")
            now.go()
            await until(lambda: "RuntimeError: a bug (traceback in the log)" in told)
        await now.app.agent.prompt("again")
        (now.app.workspace / "later").touch()
        await now.until_run(3)

        assert "ended with exit 0" in now.told()


async def test_end_of_a_job_starts_no_run_without_a_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script's next line must get its answer, and no one watches the costs.

    A screen is told of the end all the same: its badge stayed until the next key.
    """
    script = (reply(JOB), reply("Up."), reply("Seen."))
    badges: list[Sequence[str]] = []
    async with here(monkeypatch, *script, attended=False) as now:
        now.app.jobs.on_change = lambda: badges.append(now.app.jobs.badges())
        await now.app.agent.prompt("go")
        now.go()
        await until(lambda: badges == [["1 job"], []])

        assert now.runs == 1
        await now.app.agent.prompt("and now")
        assert "ended with exit 3" in now.told()


async def test_end_of_a_job_starts_no_run_after_an_aborted_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The user stopped the run; the model reads of the end with the next prompt."""
    hangs = reply(tool_use("bash", {"command": "sleep 300"}))
    async with here(monkeypatch, reply(JOB), hangs, reply("Seen.")) as now:
        async with asyncio.TaskGroup() as tasks:
            run = tasks.create_task(now.app.agent.prompt("go"))
            await until(lambda: now.app.jobs.can_move)
            now.app.agent.abort()
        assert run.result().stop_reason == "aborted"
        now.go()
        await now.ended()

        assert now.runs == 1
        await now.app.agent.prompt("and now")
        assert "ended with exit 3" in now.told()


async def test_job_stopped_by_the_user_starts_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    async with here(monkeypatch, reply(JOB), reply("Up."), reply("Seen.")) as now:
        await now.app.agent.prompt("go")

        info = await now.app.jobs.stop(1)

        assert info.state.startswith("stopped by you after ")
        assert now.app.jobs.badges() == []
        assert now.runs == 1
        await now.app.agent.prompt("and now")
        assert "was stopped by the user" in now.told()


async def test_job_that_ends_during_the_last_reply_continues_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With `-p` there is no later prompt."""
    async with here(monkeypatch, reply(JOB), reply("Up."), attended=False) as now:
        await now.app.agent.prompt("go")
        assert await now.app.jobs.own_jobs.follow_ups() == []
        now.go()
        await now.ended()

        [message] = await now.app.jobs.own_jobs.follow_ups()

        assert "ended with exit 3" in message.text
        assert await now.app.jobs.own_jobs.follow_ups() == []


async def test_new_conversation_gets_no_report_or_output_of_earlier_jobs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No job carries over into another session; the user still sees the running ones."""
    async with here(monkeypatch, reply(JOB), reply("Up."), reply("New.")) as now:
        await now.app.agent.prompt("go")
        assert len(now.app.jobs.own_jobs.started()) == 1

        now.app.clear()
        assert now.app.jobs.own_jobs.started() == []
        assert now.app.jobs.badges() == ["1 job"]
        now.go()
        await now.ended()
        await now.app.agent.prompt("new")

        assert now.runs == 2
        assert "job" not in now.told()


async def test_end_of_a_job_is_reported_once_after_a_compaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The call that started the job is no longer sent, but the job still belongs to the session."""
    monkeypatch.setenv("AGENT_CLI_COMPACTION__PROTECTED_TAIL_MESSAGES", "1")
    script = (reply(JOB), reply("Up."), reply("Two."), reply("Summary."), reply("Seen."))
    async with here(monkeypatch, *script, reply("Done.")) as now:
        await now.app.agent.prompt("go")
        await now.app.agent.prompt("two")
        await now.app.compact("")
        assert len(now.app.jobs.own_jobs.started()) == 1
        now.go()
        await now.until_run(3)
        await now.app.agent.prompt("and now")

        sent = [json.dumps(request.body["messages"]) for request in now.api.requests[-2:]]
        assert not any('"tool_use"' in each for each in sent)
        assert [each.count("ended with exit 3") for each in sent] == [1, 1]
        assert [now.runs, len(now.api.requests)] == [4, 6]


async def test_end_of_a_job_starts_no_run_beside_a_compaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would be sent, and pay for, the whole history that is being summarised."""
    monkeypatch.setenv("AGENT_CLI_COMPACTION__PROTECTED_TAIL_MESSAGES", "1")
    gate = Gate()
    summary = reply("Summary.", gate=gate, hold_at=0)
    script = (reply(JOB), reply("Up. " * 99), reply("Two."), summary, reply("Seen."))
    async with here(monkeypatch, *script) as now:
        await now.app.agent.prompt("go")
        await now.app.agent.prompt("two")
        compacting = asyncio.create_task(now.app.compact(""))
        await until(gate.reached.is_set)
        now.go()
        await now.ended()
        for _ in range(9):
            await asyncio.sleep(0)
        runs_beside = now.runs
        gate.open()
        await compacting
        await now.until_run(3)

        assert runs_beside == 2
        assert "ended with exit 3" in now.told()
        assert "Up. Up." not in json.dumps(now.api.requests[-1].body["messages"])


async def test_plan_mode_allows_reading_a_job_and_refuses_starting_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A running job continues, and its end is reported; plan mode limits later calls."""
    read = tool_use("job_output", {"id": 1})
    another = tool_use("bash", {"command": "touch made; sleep 300", "background": True})
    script = (reply(JOB), reply("Up."), reply(read, another), reply("Planned."), reply("Seen."))
    async with here(monkeypatch, *script) as now:
        await now.app.agent.prompt("go")
        now.app.permissions.mode = "plan"
        result = await now.app.agent.prompt("look")

        answers = [each for each in result.messages if isinstance(each, ToolResultMessage)]
        assert [each.is_error for each in answers] == [False, True]
        assert answers[1].text.startswith("Plan mode: only reading is allowed.")
        assert [job.id for job in now.app.jobs.all()] == [1]
        now.go()
        await now.until_run(3)
        assert "ended with exit 3" in now.told()
        assert not Path("made").exists()


async def test_job_approved_after_a_restart_runs_in_the_new_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The job that ran before is reported as lost; the approved one has a new number."""
    words = ("--no-mcp", "--permission-mode", "ask")
    gate = Gate()
    script = (reply(JOB), reply(JOB, gate=gate, hold_at=0))
    async with here(monkeypatch, *script, words=words) as before:
        before.app.permissions.mode = "yolo"
        run = asyncio.ensure_future(before.app.agent.prompt("go"))
        await until(lambda: len(before.app.jobs.all()) == 1)
        before.app.permissions.mode = "ask"
        gate.open()
        result = await run
        [call] = before.app.agent.conversation.questions()
    assert result.stop_reason == "waiting_for_approval"
    script = (reply("Up."), reply("Seen."))
    async with here(monkeypatch, *script, words=("--continue", *words)) as after:
        assert after.app.jobs.all() == []
        heard: list[Event] = []
        after.app.agent.subscribe(heard.append)
        await after.app.agent.approve(call.tool_call_id)

        lost = "these jobs ended with the program that ran them: 1 `until"
        assert any(isinstance(each, Notice) and each.text.startswith(lost) for each in heard)
        assert [job.is_own for job in after.app.jobs.all()] == [True]
        assert "these jobs ended with the program that ran them: 1 `until" in after.told()
        after.go()
        await after.until_run(2)
        assert after.told().count("ended with exit 3") == 1


async def test_jobs_are_found_by_number_and_unknown_ones_are_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with here(monkeypatch, reply(JOB), reply("Up.")) as now:
        await now.app.agent.prompt("go")

        assert now.app.jobs.tail(1, 100) == ""
        with pytest.raises(UsageError, match="there is no job 2; /jobs lists them"):
            now.app.jobs.tail(2, 100)
        with pytest.raises(UsageError, match="no command of the model runs"):
            now.app.jobs.move_to_background()
