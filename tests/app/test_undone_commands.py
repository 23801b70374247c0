"""Which commands the record of changes names, in the whole program."""

import asyncio
import io
import subprocess
from pathlib import Path

import pytest

from agent_cli.app.app import App
from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import AgentCliError
from agent_cli.contracts.file_changes import prompt_of_run
from agent_cli.repl.own_commands import OwnCommands
from agent_cli.terminal.writer import Writer
from agent_cli.undo import stopped_calls, watchable
from tests.app.agents.test_agents import Script, program
from tests.messages_api import reply, tool_use

SEED = """
git config user.name a && git config user.email a@b && echo one | tee a b > c && git add .
git commit -qm one && echo changed > b && mkdir data && echo mine > data/d
"""


@pytest.fixture
def repository() -> None:
    subprocess.run(["git", "init", "--quiet"], check=True, timeout=60)


@pytest.mark.usefixtures("repository")
async def test_commands_that_only_look_are_not_listed_as_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`/undo` tells the model and the user what may have changed; `git log` hides what matters."""
    monkeypatch.setenv("AGENT_CLI_UNDO__COMMANDS", "off")  # else all of it is known
    looking = ("git log --oneline", "git status | head -3", "grep -rn name .")
    calls = [tool_use("bash", {"command": each}) for each in (*looking, "touch made")]
    async with program(Script(go=[reply(*calls), reply("Done.")])) as run:
        await run.prompt()

        assert run.app.file_changes.commands() == ["touch made"]


@pytest.mark.usefixtures("repository")
async def test_where_calls_cannot_be_stopped_the_named_files_come_back_and_all_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Banner and `/undo` say that only these are covered; the model's other command is named."""
    old = "the kernel is older than 5.0"
    monkeypatch.setattr(stopped_calls, "why_missing", lambda: old)
    actions = tmp_path / "actions"
    actions.write_text("kill_thread trap errno trace log allow\n")
    monkeypatch.setattr(watchable, "_ACTIONS", actions)
    Path("data").mkdir()
    Path("data/a.csv").write_text("mine")
    calls = [tool_use("bash", {"command": each}) for each in ("rm -rf data", "echo > $PWD/b")]
    async with program(Script(go=[reply(*calls), reply("Done.")])) as run:
        await run.prompt()
        assert not Path("data").exists()

        taken = run.app.file_changes.take_back()

        assert Path("data/a.csv").read_text() == "mine"
        assert taken.undone == ["rm -rf data"]
        assert sorted(taken.commands) == ["echo > $PWD/b", "rm -rf data"]  # side by side
        assert f"undo: of commands, only the files they name: {old}" in run.app.overview()


@pytest.fixture
def committed(repository: None) -> None:
    subprocess.run(["sh", "-c", SEED], check=True, timeout=60)


def own_commands(app: App) -> OwnCommands:
    """Return what runs the lines that the user types behind an exclamation mark."""
    writer = Writer(io.StringIO(), io.StringIO(), color=False)
    return OwnCommands(
        writer,
        lambda: app.agent.conversation,
        launcher=app.launcher,
        kept=app.file_changes.begin_own,
    )


@pytest.mark.usefixtures("committed")
async def test_what_the_users_own_command_names_is_a_run_of_its_own() -> None:
    """It may use sudo, and what it leaves runs on, so it is not watched; its names are kept."""
    asks = [reply(tool_use("bash", {"command": "rm c"})), reply("Done."), reply("I see.")]
    async with program(Script(go=asks)) as run:
        await run.prompt()
        typed = own_commands(run.app)
        for line in ("!git commit -qam two", "!cat a", "!rm -rf a data; echo x > b", "!!git stash"):
            await typed.run(line, CancelToken())
        *agents, first, second = run.app.file_changes.changed_runs()
        prompt = run.app.agent.conversation.prompts[-1].id
        assert (agents, prompt_of_run(first), prompt_of_run(second)) == ([prompt], prompt, prompt)

        taken = [run.app.file_changes.take_back().undone for _ in range(3)]

        assert taken == [["git stash"], ["rm -rf a data; echo x > b"], ["rm c"]]
        texts = [Path(name).read_text() for name in ("a", "b", "c", "data/d")]
        assert texts == ["one\n", "changed\n", "one\n", "mine\n"]
        log = ["git", "log", "--format=%s"]
        subjects = await asyncio.to_thread(subprocess.check_output, log, text=True)
        assert subjects.split() == ["two", "one"]
        await run.prompt()
        told = str(run.app.agent.conversation.prompts[-1])
        assert "The user took back what a command of their own had changed" in told


@pytest.mark.usefixtures("repository")
async def test_own_commands_can_be_left_as_they_are() -> None:
    Path("a").write_text("mine")
    Path("b").write_text("mine")
    asks = [reply(tool_use("bash", {"command": "rm a"})), reply("Done.")]
    async with program(Script(go=asks)) as run:
        await run.prompt()
        changes = run.app.file_changes
        typed = own_commands(run.app)
        await typed.run("!rm b", CancelToken())

        assert changes.take_back(but_own=True).undone == ["rm a"]

        assert (Path("a").exists(), Path("b").exists()) == (True, False)


@pytest.mark.usefixtures("repository")
async def test_agent_that_changed_nothing_is_not_said_to_be_undone() -> None:
    """Only a command of the user's own had changed a file; it was taken for the agent's."""
    Path("b").write_text("mine")
    async with program(Script()) as run:
        changes = run.app.file_changes
        typed = own_commands(run.app)
        await typed.run("!rm b", CancelToken())

        with pytest.raises(AgentCliError, match="the agent's tools changed no file in this"):
            changes.take_back(but_own=True)
