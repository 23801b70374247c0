"""The workspace facts in the system prompt."""

import subprocess
from datetime import date
from itertools import pairwise
from pathlib import Path

import pytest

from agent_cli.contracts.errors import UsageError
from agent_cli.core.loop_config import LoopConfig
from agent_cli.plugins import facts
from agent_cli.plugins.facts import SessionFacts, WorkspaceDirectories, git_state
from tests.fakes import says, scripted_agent


@pytest.fixture
def patient_git(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give git more than its two seconds, for a busy machine."""
    monkeypatch.setattr(facts, "_GIT_LIMIT_S", 60.0)


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


def test_agent_elsewhere_may_use_what_the_session_may_and_what_is_added_meanwhile(
    tmp_path: Path,
) -> None:
    """An agent in a worktree has that as its root; the others are those of the session."""
    work, tree, before, meanwhile, after = (tmp_path / name for name in "wtbma")
    for folder in (work, tree, before, meanwhile, after):
        folder.mkdir()
    opened: list[Path] = []
    session = WorkspaceDirectories(work, [before])

    with session.following(tree, opens=[opened.append]) as agents:
        first = agents.all
        session.add(str(meanwhile))
    session.add(str(after))

    assert (first, agents.all) == ((tree, before), (tree, before, meanwhile))
    assert opened == [meanwhile]
    assert session.all == (work, before, meanwhile, after)


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


def repository(root: Path) -> None:
    for line in (
        *("init --quiet --initial-branch=main", "config user.name a", "config user.email a@b.c"),
        "commit --quiet --allow-empty -m first",
    ):
        subprocess.run(["git", *line.split()], cwd=root, check=True)


@pytest.mark.usefixtures("patient_git")
async def test_session_facts_stay_as_they_were_when_the_session_began(tmp_path: Path) -> None:
    """Otherwise the next day, or the next commit, would cost the prompt cache."""
    today = [date(2026, 11, 22)]
    repository(tmp_path)
    options = LoopConfig(
        prepare=[SessionFacts(tmp_path, today=lambda: today[0])],
        system_prompt="You are a test.",
    )
    agent, model, _ = scripted_agent(says("a"), says("b"), options=options)

    await agent.prompt("one")
    (tmp_path / "new.txt").touch()
    await agent.prompt("two")
    resumed, later, _ = scripted_agent(says("c"), says("d"), options=options)
    resumed.adopt(agent.conversation)
    today[0] = date(2026, 11, 23)
    await resumed.prompt("three")
    await resumed.prompt("four")

    known = "Today is Sunday, 2026-11-22.\nGit branch: main, clean"
    requests = [*model.requests, *later.requests]
    assert [request.system for request in requests] == [("You are a test.", known)] * 4
    told = [str(request.messages).count("it is now Monday, 2026-11-23") for request in requests]
    assert told == [0, 0, 1, 1]
    for before, after in pairwise(requests):
        assert after.messages[: len(before.messages)] == before.messages


@pytest.mark.usefixtures("patient_git")
def test_changed_files_are_counted(tmp_path: Path) -> None:
    repository(tmp_path)
    (tmp_path / "a.txt").write_text("one")
    subprocess.run(["git", "add", "a.txt"], cwd=tmp_path, check=True)
    (tmp_path / "b.txt").touch()

    assert git_state(tmp_path) == "Git branch: main, 1 changed and 1 untracked files"


@pytest.mark.parametrize(("takes_s", "state"), [(2.0, "Git branch: main"), (2.01, "")])
def test_first_prompt_does_not_wait_longer_than_two_seconds_for_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, takes_s: float, state: str
) -> None:
    """A folder on a server that is away answers late or never; its branch is left out."""

    def slow_git(_folder: Path, *_arguments: str, limit_s: float) -> str | None:
        return "main\n" if takes_s <= limit_s else None

    monkeypatch.setattr(facts, "git_output", slow_git)

    assert git_state(tmp_path) == state


@pytest.mark.usefixtures("patient_git")
def test_git_state_runs_no_program_of_the_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threats 11 and 13: it has a filter, a file system monitor and a git of its own.

    Trusting the workspace says nothing about its git configuration, so it makes no difference.
    """
    repository(tmp_path)
    (tmp_path / "a.txt").write_text("one")
    subprocess.run(["git", "add", "a.txt"], cwd=tmp_path, check=True)
    for name in ("git", "canary"):
        (tmp_path / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/CANARY\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / ".gitattributes").write_text("* filter=evil\n")
    for key in ("core.fsmonitor", "filter.evil.clean", "filter.evil.process"):
        subprocess.run(["git", "config", key, f"{tmp_path}/canary"], cwd=tmp_path, check=True)
    (tmp_path / "a.txt").write_text("two")  # of the same size, so git compares the content
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    assert git_state(tmp_path) == "Git branch: main, 1 changed and 3 untracked files"

    assert not (tmp_path / "CANARY").exists()


@pytest.mark.parametrize(("length", "shown"), [(100, "b" * 100), (101, f"{'b' * 99}…")])
@pytest.mark.usefixtures("patient_git")
def test_long_name_of_a_branch_is_cut(tmp_path: Path, length: int, shown: str) -> None:
    """It is text of a stranger, and stands in the system prompt."""
    repository(tmp_path)
    subprocess.run(["git", "checkout", "-q", "-b", "b" * length], cwd=tmp_path, check=True)

    assert git_state(tmp_path) == f"Git branch: {shown}, clean"


def test_git_state_is_empty_without_a_repository(tmp_path: Path) -> None:
    """The prompt says nothing about git then."""
    assert git_state(tmp_path) == ""
