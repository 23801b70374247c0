"""Which commands the record of changes names, in the whole program."""

import subprocess

import pytest

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
