"""The workspace facts in the system prompt."""

from pathlib import Path

import pytest

from agent_cli.contracts.errors import UsageError
from agent_cli.core.loop_config import LoopConfig
from agent_cli.plugins.workspace_facts import WorkspaceDirectories
from tests.fakes import says, scripted_agent


async def test_added_directory_is_announced_without_changing_the_prefix(
    tmp_path: Path,
) -> None:
    """It is announced once, at the end: another system prompt would cost the prompt cache."""
    root, other = tmp_path / "work", tmp_path / "other"
    root.mkdir()
    other.mkdir()
    opened: list[Path] = []
    directories = WorkspaceDirectories(root, opens=[opened.append, opened.append])
    options = LoopConfig(prepare=[directories], system_prompt="You are a test.")
    agent, model, _ = scripted_agent(says("a"), says("b"), says("c"), options=options)

    await agent.prompt("one")
    added = directories.add("../other")
    await agent.prompt("two")
    await agent.prompt("three")

    assert (added, opened) == (other, [other, other])
    assert len({request.system for request in model.requests}) == 1
    told = [str(request.messages).count(str(other)) for request in model.requests]
    assert told == [0, 1, 1]


async def test_new_conversation_is_told_of_directories_added_before(tmp_path: Path) -> None:
    """They stay open until the program ends."""
    root, other = tmp_path / "work", tmp_path / "other"
    root.mkdir()
    other.mkdir()
    directories = WorkspaceDirectories(root)
    options = LoopConfig(prepare=[directories])
    agent, model, _ = scripted_agent(says("a"), says("b"), says("c"), options=options)
    directories.add("../other")

    await agent.prompt("one")
    agent.clear_messages()
    await agent.prompt("two")
    await agent.prompt("three")

    told = [str(request.messages).count(str(other)) for request in model.requests]
    assert told == [1, 1, 1]


def refuse(folder: Path) -> None:
    raise AssertionError(f"{folder} was opened")


@pytest.mark.parametrize("given", ["file.txt", "nowhere", "~nobody/x", "a\0b"])
def test_adding_something_other_than_a_directory_is_refused(tmp_path: Path, given: str) -> None:
    """The message is one sentence, and nothing is opened."""
    (tmp_path / "file.txt").touch()

    with pytest.raises(UsageError, match="is not a directory"):
        WorkspaceDirectories(tmp_path, opens=[refuse]).add(given)


@pytest.mark.parametrize("given", [".", "inner", "../more/deep"])
def test_adding_a_directory_that_may_be_used_already_is_refused(tmp_path: Path, given: str) -> None:
    """It may be in the workspace, or in a directory added before."""
    root = tmp_path / "work"
    (root / "inner").mkdir(parents=True)
    (tmp_path / "more/deep").mkdir(parents=True)

    with pytest.raises(UsageError, match=r"may use .* already"):
        WorkspaceDirectories(root, [tmp_path / "more"], opens=[refuse]).add(given)
