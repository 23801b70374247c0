"""Agents that work in a git worktree of their own."""

import asyncio
import json
import shlex
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agent_cli.app.agents import workspaces
from agent_cli.app.agents.workspaces import AgentWorkspace
from agent_cli.contracts.dialogs import Approved, Decision
from agent_cli.contracts.errors import AgentCliError
from agent_cli.contracts.events import (
    AgentEvent,
    Event,
    SessionOpened,
    ToolCall,
    ToolExecutionEnd,
)
from agent_cli.settings.files import add_project_rules
from agent_cli.system import paths
from agent_cli.system.worktrees import (
    Worktree,
    WorktreeMark,
    add_worktree,
    is_untouched,
    worktree_folder,
)
from agent_cli_tools.workspace import Workspace
from tests.app.agents.test_agents import Person, Program, Script, program, started
from tests.app.agents.test_background_agents import begun, told
from tests.app.agents.test_hooked_agents import heard, idle_after
from tests.fakes import LIMIT_S, notices
from tests.hooks.test_scripts import command, hooks
from tests.messages_api import Gate, Reply, reply, tool_use
from tests.system.test_worktrees import git
from tests.waiting import until

EDIT = tool_use("edit", {"path": "src/a.txt", "edits": [{"old": "one", "new": "two"}]})
READ = tool_use("read", {"path": "src/a.txt"})


@pytest.fixture
def repository() -> Path:
    folder = Path.cwd()
    git(folder, "init", "--quiet", "--initial-branch=main")
    (folder / "src").mkdir()
    (folder / "src" / "a.txt").write_text("one\n")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "first")
    return folder


def isolated(*tasks: str) -> Reply:
    return started(*tasks, agent="general", isolation="worktree")


def trees(repository: Path) -> list[str]:
    listed = git(repository, "worktree", "list", "--porcelain").splitlines()
    return [line.split()[1] for line in listed if line.startswith("worktree ")]


def merge(answer: str, repository: Path) -> None:
    """Run the command that *answer* names."""
    words = shlex.split(answer.split("`")[1])
    subprocess.run(words, cwd=repository, check=True, capture_output=True, timeout=60)


async def test_agent_is_told_that_the_submodules_of_its_worktree_are_empty(
    repository: Path,
) -> None:
    """Git checks none out; the agent took the empty folders for the state of the project."""
    commit = git(repository, "rev-parse", "HEAD").strip()
    git(repository, "update-index", "--add", "--cacheinfo", f"160000,{commit},libs/sub")
    git(repository, "commit", "--quiet", "-m", "submodule")
    script = Script(go=[isolated("look"), reply("Done.")], look=[reply("Seen.")])
    async with program(script) as run:
        await run.prompt()

    told = str(script.bodies("look")[0]["system"])
    assert "empty, because git checks none out in a worktree: libs/sub." in told


async def test_changes_in_an_agents_worktree_are_merged_by_the_command_shown(
    repository: Path,
) -> None:
    """Files, commands and subagents are in the worktree; the workspace stays unchanged."""
    script = Script(
        go=[isolated("change it"), reply("Done.")],
        change_it=[
            reply(READ),
            reply(EDIT, tool_use("bash", {"command": "echo new > src/b.txt; pwd"})),
            started("look", agent="explore"),
            reply("Changed."),
        ],
        look=[reply(READ), reply("two")],
    )
    async with program(script) as run:
        result = await run.prompt()
        assert (repository / "src" / "a.txt").read_text() == "one\n"
        [answer] = run.answers(result)
        merge(answer, repository)

    _main, tree = trees(repository)
    assert Path(tree).parent == worktree_folder(repository, "any").parent
    assert tree in json.dumps(script.bodies("change it")[0]["system"])
    assert tree in json.dumps(script.bodies("change it")[2]["messages"]), "of pwd"
    assert "two" in json.dumps(script.bodies("look")[1]["messages"])
    assert answer.startswith(f"Changed.\n\n[agent-cli: its changes are in the git worktree {tree}")
    assert (repository / "src" / "a.txt").read_text() == "two\n"
    assert (repository / "src" / "b.txt").read_text() == "new\n"


async def test_command_that_merges_reads_only_what_the_sandbox_shows(repository: Path) -> None:
    """A sandbox has a /tmp of its own: beside a workspace there, it showed no file."""
    script = Script(
        go=[isolated("change it"), reply("Done.")],
        change_it=[reply(READ), reply(EDIT), reply("Changed.")],
    )
    async with program(script) as run:
        [answer] = run.answers(await run.prompt())

    patch = Path(shlex.split(answer.split("`")[1])[-1])
    assert patch.is_relative_to(repository)
    assert "two" in patch.read_text()
    git(repository, *shlex.split(answer.split("`")[3])[1:])
    assert not patch.exists()


async def test_undo_says_where_the_changes_of_an_isolated_agent_are(repository: Path) -> None:
    """It said that the agent's tools changed no file; it knows them after a restart, too."""
    script = Script(
        go=[isolated("change it", "look"), reply("Done.")],
        change_it=[reply(READ), reply(EDIT), reply("Changed.")],
        look=[reply(READ), reply("Seen.")],
    )
    async with program(script) as run:
        await run.prompt()
    _main, tree = trees(repository)

    async with program(script, "-c") as run:
        changes = run.app.file_changes
        await until(lambda: any(isinstance(event, SessionOpened) for event in run.events))
        with pytest.raises(AgentCliError) as refused:
            await asyncio.to_thread(changes.take_back)
        assert [str(path) for path in await asyncio.to_thread(changes.worktrees)] == [tree]
        git(repository, "worktree", "remove", "--force", tree)
        with pytest.raises(AgentCliError, match="the agent's tools changed no file in this ses"):
            await asyncio.to_thread(changes.take_back)

    assert str(refused.value) == (
        "nothing to undo: the agent's tools changed no file of the workspace; what agents"
        f" changed in git worktrees of their own stays: {tree}"
    )


async def test_unchanged_worktrees_of_agents_are_removed(repository: Path) -> None:
    """Two concurrent agents have different worktrees."""
    script = Script(
        go=[isolated("one", "two"), reply("Done.")], one=[reply("ok")], two=[reply("ok")]
    )
    async with program(script) as run:
        result = await run.prompt()

    assert all("its git worktree was removed" in each for each in run.answers(result))
    assert trees(repository) == [str(repository)]


async def test_isolated_agent_works_in_a_folder_that_was_never_committed(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit has no such folder, so there was none to run a command in."""
    (repository / "new" / "deep").mkdir(parents=True)
    monkeypatch.chdir(repository / "new" / "deep")
    script = Script(
        go=[isolated("change it"), reply("Done.")],
        change_it=[reply(tool_use("bash", {"command": "pwd; echo x > a.txt"})), reply("Changed.")],
    )
    async with program(script) as run:
        result = await run.prompt()
        [answer] = run.answers(result)
        merge(answer, repository)

    assert f"{trees(repository)[1]}/new/deep" in json.dumps(script.bodies("change it")[1])
    assert (repository / "new" / "deep" / "a.txt").read_text() == "x\n"


async def test_changes_are_named_if_the_agent_is_stopped_while_they_are_collected(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Collecting takes seconds in a large repository; nobody else would name the worktree."""
    tree = add_worktree(repository, worktree_folder(repository, "one"), "HEAD")
    (tree.path / "b.txt").write_text("new\n")
    begins, goes_on = threading.Event(), threading.Event()

    def slow(worktree: Worktree) -> bool:
        begins.set()
        assert goes_on.wait(LIMIT_S)
        return is_untouched(worktree)

    monkeypatch.setattr(workspaces, "is_untouched", slow)
    warnings: list[str] = []
    parts: Any = SimpleNamespace(warn=warnings.append, close=list)
    place = AgentWorkspace(
        parts, parts, Workspace(repository), parts, parts, worktree=tree, is_owned=True
    )

    async with asyncio.TaskGroup() as group:
        closing = group.create_task(place.close())
        await asyncio.to_thread(begins.wait, LIMIT_S)
        closing.cancel()
        leaving = group.create_task(place.leave())
        goes_on.set()

    assert closing.cancelled()
    assert leaving.done()
    [warning] = warnings
    assert warning.startswith(f"[agent-cli: its changes are in the git worktree {tree.path}")
    assert await place.close() == ""


async def test_isolated_agent_outside_a_repository_fails_with_a_remedy() -> None:
    script = Script(go=[isolated("one"), reply("Done.")])
    async with program(script) as run:
        result = await run.prompt()

    [answer] = run.answers(result)
    assert answer.startswith("No git worktree could be made for this agent: ")
    assert answer.endswith("Call it without isolation, or tell the user.")


async def test_isolated_agent_in_a_repository_without_a_commit_fails() -> None:
    git(Path.cwd(), "init", "--quiet")
    script = Script(go=[isolated("one"), reply("Done.")])
    async with program(script) as run:
        result = await run.prompt()

    assert run.answers(result)[0].startswith(
        "No git worktree could be made for this agent: the repository has no commit yet. "
    )


async def test_question_of_an_isolated_agent_names_its_worktree(repository: Path) -> None:
    """The question offers no rule to remember: such a rule would hold for the workspace."""
    script = Script(
        go=[isolated("change it"), reply("Done.")],
        change_it=[reply(READ), reply(EDIT), reply("Changed.")],
    )
    asked: list[Program] = []

    class Reader(Person):
        async def decide_calls(self, calls: Sequence[ToolCall], asker: str) -> Sequence[Decision]:
            permissions = asked[0].app.permissions
            facts = [permissions.asked_about(call) for call in calls]
            assert [each.rules for each in facts] == [()]
            assert "in the git worktree " in " ".join(facts[0].facts)
            return await super().decide_calls(calls, asker)

    person = Reader(Approved())
    async with program(script, mode="ask", person=person) as run:
        asked.append(run)
        await run.prompt()

    assert person.asked == [("agent general (change it)", "edit")]
    assert len(trees(repository)) == 2


async def test_plan_mode_chosen_while_an_isolated_agent_works_holds_for_its_batch(
    repository: Path,
) -> None:
    write = tool_use("write", {"path": "src/new.txt", "content": "x"})
    script = Script(
        go=[isolated("change it"), reply("Done.")],
        change_it=[reply(tool_use("bash", {"command": "ls"}), write), reply("Looked.")],
    )
    async with program(script) as run:
        permissions = run.app.permissions

        def plan(event: Event) -> None:
            is_first = isinstance(event, AgentEvent) and isinstance(event.event, ToolExecutionEnd)
            permissions.mode = "plan" if is_first else permissions.mode

        run.app.agent.subscribe(plan)
        await run.prompt()

    [_, after] = script.bodies("change it")
    assert "Plan mode: only reading is allowed." in json.dumps(after["messages"][-2:])
    assert trees(repository) == [str(repository)]


async def test_stopped_agent_keeps_its_worktree_and_the_user_is_notified(
    repository: Path,
) -> None:
    gate = Gate()
    script = Script(
        go=[isolated("change it")],
        change_it=[reply(READ), reply(EDIT), reply("never", gate=gate, hold_at=0)],
    )
    async with program(script) as run:
        prompting = asyncio.create_task(run.prompt())
        await until(lambda: len(script.bodies("change it")) == 3)
        run.app.agent.abort()
        await prompting
        gate.open(100)
        told = json.dumps([str(event) for event in run.events])

    _main, tree = trees(repository)
    assert f"its changes are in the git worktree {tree}" in told
    assert (Path(tree) / "src" / "a.txt").read_text() == "two\n"


def kill_at_work_in(worktree: Path) -> None:
    """Let a program mark *worktree* as in use, and kill it."""
    code = (
        "import sys, time; from pathlib import Path\n"
        "from agent_cli.system.worktrees import Worktree\n"
        "from agent_cli.system.worktrees import WorktreeMark\n"
        "mark = WorktreeMark(Worktree(Path(sys.argv[1]), Path.cwd(), ''))\n"
        "print('marked', flush=True); time.sleep(600)"
    )
    arguments = [sys.executable, "-c", code, str(worktree)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE) as program:
        assert program.stdout
        assert program.stdout.readline() == b"marked\n"
        program.kill()


def removals(run: Program) -> list[str]:
    texts = notices(run.events)
    return [text for text in texts if "git worktree remove" in text]


async def test_worktrees_left_by_a_killed_program_are_named_once_at_the_next_start(
    repository: Path,
) -> None:
    """A worktree in which another program's agent still works is not named."""
    left, used = (worktree_folder(repository, name) for name in ("agent-1", "agent-2"))
    trees = [add_worktree(repository, path, "HEAD") for path in (left, used)]
    kill_at_work_in(left)
    mark = WorktreeMark(trees[1])
    said: list[list[str]] = []
    for place in (used, repository):  # from another worktree of the repository, too
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(place)
            async with program(Script(go=[reply("Hi.")])) as run:
                await run.prompt()
                if place == used:
                    await until(lambda: removals(run) != [])
                said.append(removals(run))
    mark.release()

    assert said == [
        [
            "agents of a program that was killed left git worktrees; look for changes you need,"
            f" then remove them: `git worktree remove --force {left}`"
        ],
        [],
    ]
    merge(said[0][0], repository)
    assert not left.exists()


async def test_pre_tool_use_hook_gets_the_paths_of_the_agents_worktree(repository: Path) -> None:
    hooks(PreToolUse=command("cat >> ../seen.json", matcher="Edit"))
    script = Script(
        go=[isolated("change it"), reply("Done.")],
        change_it=[reply(READ), reply(EDIT), reply("Changed.")],
    )
    async with program(script) as run:
        await run.prompt()

    seen = json.loads((repository.parent / "seen.json").read_text())
    _main, tree = trees(repository)
    assert seen["cwd"] == tree
    assert seen["tool_input"]["file_path"] == f"{tree}/src/a.txt"


async def test_subagent_stop_hook_of_a_background_agent_runs_in_its_worktree(
    repository: Path,
) -> None:
    """The hook sends the agent back once; the worktree exists until the hook accepts the end."""
    log = 'cat >> "$CLAUDE_PROJECT_DIR/ends"; echo >> "$CLAUDE_PROJECT_DIR/ends"'
    once = "test $(wc -l < ends) -ge 2 && exit 0; echo 'name the line' >&2; exit 2"
    hooks(
        SubagentStart=command(f"{log.replace('ends', 'starts')}"),
        SubagentStop=command(f"{log}; {once}"),
    )
    gate = Gate()
    script = Script(
        go=[
            begun("change it", agent="general", isolation="worktree"),
            reply("Begun."),
            reply("I see."),
        ],
        change_it=[reply("Changed.", gate=gate, hold_at=0), reply("Changed line 3.")],
    )
    async with program(script, attended=True) as run:
        await run.prompt()
        gate.open()
        await idle_after(run, 3)

    [start] = heard("starts")
    first, second = heard("ends")
    tree = str(first["cwd"])
    assert tree != str(repository)
    assert tree in json.dumps(script.bodies("change it")[0]["system"])
    about = {"agent_id": start["agent_id"], "agent_type": "general", "cwd": tree}
    for payload in (start, first, second):
        assert about.items() <= payload.items()
    assert (first["last_assistant_message"], first["stop_hook_active"]) == ("Changed.", False)
    assert (second["last_assistant_message"], second["stop_hook_active"]) == (
        "Changed line 3.",
        True,
    )
    assert "name the line" in json.dumps(script.bodies("change it")[1]["messages"])
    assert "Changed line 3." in told(run)
    assert not Path(tree).exists()


@pytest.mark.parametrize("isolation", ["none", "worktree"])
async def test_directory_added_while_an_agent_works_is_open_to_it(
    repository: Path, isolation: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """To its file tools and its commands; it is told like the session's agent."""
    other = tmp_path_factory.mktemp("other")
    gate = Gate()
    script = Script(
        go=[started("change it", agent="general", isolation=isolation), reply("Done.")],
        change_it=[
            reply(READ, gate=gate, hold_at=0),
            reply(
                tool_use("write", {"path": str(other / "written"), "content": "x"}),
                tool_use("bash", {"command": f"touch {other}/touched"}),
            ),
            reply("Changed."),
        ],
    )
    async with program(script) as run, asyncio.TaskGroup() as group:
        group.create_task(run.prompt())
        await until(lambda: len(script.bodies("change it")) == 1)
        run.app.directories.add(str(other))
        gate.open(100)

    assert sorted(file.name for file in other.iterdir()) == ["touched", "written"]
    assert f"lets the file tools use {other} too" in told(Program(run.app, script), "change it")


@pytest.mark.parametrize("isolation", ["none", "worktree"])
async def test_rule_that_is_taken_back_holds_for_no_agent_any_longer(
    repository: Path, isolation: str
) -> None:
    """Neither for one that works, nor for one that begins later."""
    add_project_rules(paths.permissions_file(), repository, ["bash(touch *)"])
    gate = Gate()
    touch = reply(tool_use("bash", {"command": "touch made"}))
    agent = {"agent": "general", "isolation": isolation}
    script = Script(
        go=[started("change it", **agent), started("and this", **agent), reply("Done.")],
        change_it=[touch, reply(touch.blocks[0], gate=gate, hold_at=0), reply("Left out.")],
        and_this=[touch, reply("Left out.")],
    )
    person = Person(Approved())
    async with program(script, person=person, mode="ask") as run, asyncio.TaskGroup() as group:
        group.create_task(run.prompt())
        await until(lambda: len(script.bodies("change it")) == 2)
        assert person.asked == []
        [rule] = [rule for _, rule in run.app.permissions.rules() if rule.text == "touch *"]
        run.app.permissions.remove_rule(rule)
        person.decisions += [Approved()] * 2
        gate.open(100)

    assert [name for _, name in person.asked] == ["bash", "bash"]
