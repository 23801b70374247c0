"""/undo where the kernel cannot stop the calls of commands: what they name is kept."""

import json
import os
from collections.abc import Iterator
from pathlib import Path, PurePath

import pytest

from agent_cli.app.workspace.named_files import named_files
from agent_cli.contracts.errors import AgentCliError
from agent_cli.policies.shell import Reach
from agent_cli.system.launching import NamedFiles
from agent_cli.undo.logs import is_running
from agent_cli_tools import command_run
from tests.tables import each_row
from tests.tools.test_undo_commands import Session
from tests.tools.undoing import fill, tree
from tests.waiting import until

WHY = "the kernel is older than 5.0"


class NamingSession(Session):
    """A session on a machine whose kernel cannot stop calls."""

    bytes_max = 1_000_000

    def named(self, command: str) -> NamedFiles | None:
        return named_files(command, Reach(root=self.root), WHY, bytes_max=self.bytes_max)


BOTH_REASONS = pytest.mark.parametrize("session", ["no kernel", "rights"], indirect=True)


@pytest.fixture
def session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[NamingSession]:
    """Two reasons: the kernel cannot, which is known before; or `sudo` would fail in a command."""
    root = tmp_path / "work"
    fill(root)
    (root / "data/deep").mkdir()
    (root / "data/deep/empty").mkdir()
    (root / "data/deep/notes").write_text("mine")
    os.utime(root / "data/deep", (1, 1))
    made = NamingSession(root, tmp_path / "state")
    has_rights = getattr(request, "param", "no kernel") == "rights"
    monkeypatch.setattr(command_run, "may_gain_rights", lambda *_a, **_k: has_rights)
    if has_rights:
        made.workspace.shared.named_files = made.named
    else:
        made.named_before = made.named
    made.run()
    yield made
    made.close()


COMMANDS = [
    "rm -rf data",
    "printf 'rm -rf data\\n' | sh",
    ". <(printf 'git reset --hard')",
    "rm -rf data src; mkdir data; echo x > data/other",
    "rm link hard sparse",
    "rm -f data/p*.bin",
    "git clean -fdqx",
    "git checkout -q .",
    "git checkout -q other -- . ; git stash -q -u",
    "git stash -q",
    "git reset -q --hard",
    "git branch -qD other",
    "echo x > untracked.txt",
    "echo x >> untracked.txt; rm untracked.txt",
    "mv data old; mv src/a1.py data-a1",
    "mv data/p1.bin data/p2.bin",
    "sed -i s/x/y/ src/*.py",
    "truncate -s 0 data/p3.bin untracked.txt",
    "shred -u data/p4.bin",
    "cp untracked.txt src/a1.py; chmod 600 src/a2.py",
    "find data -type f -delete",
    "find . -name '*.py' -exec rm {} +",
    "rm -rf .git",
    "chmod -R 700 src",
    "tee data/p5.bin < untracked.txt > /dev/null",
    "dd if=/dev/zero of=sparse bs=1 count=4 conv=notrunc status=none",
    "rm untracked.txt && mkdir untracked.txt && touch untracked.txt/in",
    "ln -sf nowhere link",
    "cd data && rm -rf deep && echo x > p7.bin",
]


@each_row("command", COMMANDS)
async def test_what_a_destructive_command_names_is_brought_back(
    session: NamingSession, command: str
) -> None:
    """Byte for byte, with modes and times, and what it made is taken away."""
    await bring_back(session, command)


@pytest.mark.parametrize("session", ["rights"], indirect=True)
@each_row(
    "command",
    ["rm -rf data", "git stash -q", "echo x >> untracked.txt; rm untracked.txt"],
)
async def test_what_a_command_with_rights_names_is_brought_back(
    session: NamingSession, command: str
) -> None:
    """Both reasons lead to the same files to keep, and to the same keeper."""
    await bring_back(session, command)


async def bring_back(session: NamingSession, command: str) -> None:
    """Run *command* and undo it; all is as before."""
    before = tree(session.root)
    session.run()

    told = await session.bash(command)
    assert tree(session.root) != before, told
    taken = session.undo()

    after = tree(session.root)
    # A copy cannot restore that two names were one file.
    assert without_links(after) == without_links(before)
    assert taken.faults == []
    assert taken.undone == [command]
    assert taken.commands == [command]  # what else it did is not known
    # For the next command.
    (session.root / "hard").unlink()
    (session.root / "hard").hardlink_to(session.root / "src/a2.py")


def without_links(found: dict[str, tuple[object, ...]]) -> dict[str, tuple[object, ...]]:
    return {path: about[:-1] for path, about in found.items()}


@BOTH_REASONS
async def test_command_that_changed_nothing_that_it_names_leaves_nothing_to_undo(
    session: NamingSession,
) -> None:
    """Else the command, and not the run before it, would be what `/undo` takes back."""
    before = tree(session.root)

    await session.bash("rm -f nothing data/none; cp data/p1.bin /dev/null; git stash list")

    with pytest.raises(AgentCliError, match="nothing to undo"):
        session.undo()
    assert tree(session.root) == before
    assert [*session.state.glob("*/commands/*/*-*")] == []  # and nothing that is kept


async def test_files_that_somebody_changed_since_are_refused_one_by_one(
    session: NamingSession,
) -> None:
    await session.bash("rm untracked.txt data/p1.bin")
    (session.root / "untracked.txt").write_text("theirs")

    with pytest.raises(AgentCliError, match=r"changed these files too: \S*/untracked\.txt;"):
        session.undo()

    assert not (session.root / "data/p1.bin").exists()


@BOTH_REASONS
async def test_edit_of_a_tool_and_a_command_on_the_same_file_are_both_taken_back(
    session: NamingSession,
) -> None:
    before = tree(session.root)

    await session.write("untracked.txt", "of the tool\n")
    await session.bash("sed -i s/tool/command/ untracked.txt")
    await session.write("data/new", "of the tool\n")
    await session.bash("rm data/new src/a1.py")
    session.undo()

    assert without_times(tree(session.root)) == without_times(before)


async def test_other_changes_of_the_command_are_no_silent_gap(session: NamingSession) -> None:
    """A program changes what it does not name: the result of `/undo` names the command."""
    command = "rm data/p1.bin; bash -c 'cd data; echo x > \"$(ls | head -n 1)\"'"

    await session.bash(command)
    taken = session.undo()

    assert taken.commands == [command]


@BOTH_REASONS
async def test_too_much_is_not_copied_and_said_to_be_lost(session: NamingSession) -> None:
    session.bytes_max = 5000  # one block
    found = session.named("truncate -s 0 src data/p2.bin")
    assert found is not None
    assert found.unkept == {str(session.root / "src"): "it is larger than undo.max_mb"}

    told = await session.bash("truncate -s 0 data/p2.bin untracked.txt")
    taken = session.undo()

    assert (session.root / "data/p2.bin").stat().st_size == 200
    fault = f"{session.root}/untracked.txt: it is larger than undo.max_mb"
    assert taken.faults == [fault]
    assert f"/undo cannot bring back all that this command changed: {session.root}" in told


async def test_linked_file_that_was_written_to_is_said_to_be_lost(session: NamingSession) -> None:
    """A hook of git wrote into it, so the link has the new content as well."""
    hook = session.root / ".git/hooks/post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho more >> untracked.txt\n")
    hook.chmod(0o755)

    await session.bash("git checkout -q other")
    taken = session.undo()

    assert taken.faults == [f"{session.root}/untracked.txt: it was written to in place"]


async def test_secret_is_not_kept(session: NamingSession) -> None:
    """The store never holds what the sandbox masks."""
    (session.root / ".env").write_text("KEY=secret-value")

    found = named_files(
        "rm -rf .env data",
        Reach(root=session.root),
        WHY,
        bytes_max=10**6,
        is_kept_back=lambda path: PurePath(path).name == ".env",
    )

    assert found is not None
    assert found.unkept == {str(session.root / ".env"): "secrets are not kept"}
    assert str(session.root / "data/p1.bin") in found.paths


async def test_command_that_loses_nothing_by_name_costs_nothing(session: NamingSession) -> None:
    """`git status` copied the whole work tree before it ran, and was what /undo took back."""
    commands = (
        *("cat untracked.txt", "make", "python x.py", "ls > /dev/null", "true 2>&1"),
        *("git status --short | head -3", "git log --oneline", "git diff && git branch -a"),
        *("git --no-pager show HEAD", "git stash list"),
    )

    assert [each for each in commands if session.named(each) is not None] == []


async def test_command_of_git_that_may_lose_something_is_kept(session: NamingSession) -> None:
    """A form that only reads ends where an option writes, or is not known before it runs."""
    commands = (
        *("git diff --output=tracked.txt", "git branch -D other", "git stash", "git log $x"),
        *("git status; rm -rf data", "git status && git checkout -q .", "git -C data status"),
    )

    assert [each for each in commands if session.named(each) is None] == []


async def test_link_that_leads_out_of_the_workspace_is_kept_as_a_link(
    session: NamingSession, tmp_path: Path
) -> None:
    """Neither what it leads to, nor what a path with .. names, is copied or restored."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "theirs").write_text("theirs")
    (session.root / "out").symlink_to(outside)

    found = session.named(f"rm -rf out out/theirs ../outside {outside}/theirs")

    assert found is not None
    assert [*found.paths] == [str(session.root / "out")]
    assert found.absent == []


@BOTH_REASONS
async def test_killed_keeper_leaves_a_log_that_brings_all_back(session: NamingSession) -> None:
    before = tree(session.root)

    await session.bash("rm -rf data src; kill -9 $PPID")
    [log] = session.state.glob("*/commands/*")
    await until(lambda: not is_running(log))
    session.undo()

    assert without_links(tree(session.root)) == without_links(before)


@BOTH_REASONS
async def test_log_reads_like_that_of_a_watched_command(session: NamingSession) -> None:
    """So `/diff` and `agent-cli undo list` show it."""
    await session.bash("rm data/p1.bin; echo more >> src/a1.py")

    found = session.diff()
    assert (found["data/p1.bin"].kind, found["src/a1.py"].kind) == ("deleted", "changed")
    [log] = session.state.glob("*/commands/*/log.jsonl")
    assert json.loads(log.read_text().splitlines()[0])["unwatched"] == WHY
    assert log.stat().st_mode & 0o077 == 0


def without_times(found: dict[str, tuple[object, ...]]) -> dict[str, object]:
    return {path: about[0] for path, about in found.items() if not path.startswith(".git")}
