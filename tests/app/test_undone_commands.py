"""Which commands the record of changes names, in the whole program."""

import subprocess
from pathlib import Path

import pytest

from agent_cli.undo import rights, trial
from tests.app.test_agents import Script, program
from tests.messages_api import reply, tool_use


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
    monkeypatch.setattr(trial, "why_missing", lambda: old)
    actions = tmp_path / "actions"
    actions.write_text("kill_thread trap errno trace log allow\n")
    monkeypatch.setattr(rights, "_ACTIONS", actions)
    Path("data").mkdir()
    Path("data/a.csv").write_text("mine")
    calls = [tool_use("bash", {"command": each}) for each in ("rm -rf data", "echo > $PWD/b")]
    async with program(Script(go=[reply(*calls), reply("Done.")])) as run:
        await run.prompt()
        assert not Path("data").exists()

        taken = run.app.file_changes.take_back()

        assert Path("data/a.csv").read_text() == "mine"
        assert taken.undone == ["rm -rf data"]
        assert taken.commands == ["rm -rf data", "echo > $PWD/b"]
        assert f"undo: of commands, only the files they name: {old}" in run.app.overview()
