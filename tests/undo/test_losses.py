"""What counts as a loss of a command: what somebody would miss."""

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_cli.undo.git_index import HeldFiles, index_entries
from agent_cli.undo.logs import CommandQuestion, Loss
from agent_cli.undo.stopped_calls import why_missing
from agent_cli_tools import command_run
from tests.tools.test_undo_commands import Session
from tests.tools.undoing import repository, tree
from tests.waiting import LIMIT_S

watching = pytest.mark.skipif(why_missing() != "", reason=why_missing() or "-")
EDIT = "for i in {1..9}; do echo more >> m$i"
FILES = "{1..9}"


def run(script: str, folder: Path) -> None:
    subprocess.run(["bash", "-c", script], cwd=folder, check=True)


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """In a repository with two branches that differ in nine files, and nine that git lacks."""
    monkeypatch.setattr(command_run, "may_gain_rights", lambda *_a, **_k: False)
    root = tmp_path / "work"
    script = (
        "git init -q --template= . && git config user.name a && git config user.email a@b"
        " && for i in {1..9}; do echo $i > m$i; done && git add . && git commit -qm one"
        f" && git checkout -qb other && {EDIT}; done && git commit -qam two && git checkout -q -"
        " && for i in {1..9}; do echo data > d$i; done"
    )
    repository(root, script)
    made = Session(root, tmp_path / "state")

    async def decide(_command: str, question: CommandQuestion) -> bool:
        if isinstance(question, Loss):
            made.asked.append(question)
        return False

    made.snapshots.decide = decide
    made.ask_beyond = (4, 0)
    made.run()
    yield made
    made.close()


@watching
@pytest.mark.parametrize(
    "command",
    [
        "git checkout -q other",
        "git checkout -q other; git checkout -q -",
        "git merge -q other",
        "sed -i s/1/2/ m?",
        "rm m?",
        "git rm -q m?",
        f"{EDIT}; git commit -qam m$i; done",
        "rm m1 m2 m3 d1 d2 d3",
    ],
)
async def test_without_a_person_what_git_holds_does_not_count(
    session: Session, command: str
) -> None:
    """Or a branch could not be changed in `-p`; what the person has not committed counts."""
    session.is_alone = True
    before = tree(session.root)

    said = await session.bash(command)

    assert session.asked == [], said
    assert "not permitted" not in said
    session.undo()
    assert tree(session.root) == before


@watching
@pytest.mark.parametrize(
    ("prepare", "command", "paths"),
    [
        (":", "rm d?", ["d1", "d2", "d3", "d4"]),
        (":", "rm m? d?", ["d1", "d2", "d3", "d4"]),
        (":", "git checkout -q other; rm d?", ["d1", "d2", "d3", "d4"]),
        (f"{EDIT}; done", "git checkout -q .", ["m1", "m2", "m3", "m4"]),
        (f"{EDIT}; done", "rm m?", ["m1", "m2", "m3", "m4"]),
        ("echo new > m5; touch d?", "rm d[12] m5 d3 d4", ["d1", "d2", "m5", "d3"]),
        ("rm -rf .git", "rm m?", ["m1", "m2", "m3", "m4"]),
        ("touch -d '+2 hours' d?", "rm d?", ["d1", "d2", "d3", "d4"]),
        (":", "touch d?; git add -N d?; rm d?", ["d1", "d2", "d3", "d4"]),
        (":", "touch -c d?; rm d?", ["d1", "d2", "d3", "d4"]),
        (":", "echo x > own; for i in 1 2 3 4 5; do mv d$i x; rm x; done", ["x"] * 4),
    ],
)
async def test_without_a_person_all_else_counts(
    session: Session, prepare: str, command: str, paths: list[str]
) -> None:
    run(prepare, session.root)
    session.run()
    session.is_alone = True

    await session.bash(command)

    found = [Path(path).name for loss in session.asked for path in loss.paths]
    assert sorted(found) == sorted(paths)


@watching
async def test_without_a_person_what_changed_since_the_run_began_does_not_count(
    session: Session,
) -> None:
    """A formatter may follow upon a change of many files."""
    session.is_alone = True
    session.run()

    await session.bash(f"{EDIT}; echo > n$i; done")
    said = await session.bash("sed -i s/more/less/ m?; rm n?; chmod 600 d?")
    late = await session.bash("rm d?")

    assert "exit 0" in said
    assert [loss.files for loss in session.asked] == [4], late


@watching
async def test_without_a_person_a_file_is_not_of_the_run_because_an_earlier_command_touched_it(
    session: Session,
) -> None:
    """What was there before counts once it is deleted; what the run made never does."""
    session.is_alone = True
    session.run()
    await session.bash("touch d1 d2 d3; echo > n1; echo > n2; echo > n3; echo > n4; echo > n5")
    await session.bash("echo more >> d4; touch d5")

    made = await session.bash("rm n?")
    touched = await session.bash("rm d?")

    assert "exit 0" in made
    assert [loss.files for loss in session.asked] == [4], touched


@watching
@pytest.mark.parametrize(
    ("first", "then", "asked"),
    [
        ("sed -i s/data/mine/ d?", "rm d?", [4]),  # a new file in place of each
        ("for i in 1 2 3 4 5; do cp d$i x; mv x d$i; done", "rm d?", [4]),
        ("echo > n1; echo > n2; echo > n3; echo > n4; echo > n5; sed -i s/$/x/ n?", "rm n?", []),
        ("sed -i s/$/more/ m?", "rm m?", []),  # git holds what they were
    ],
)
async def test_without_a_person_a_file_that_an_earlier_command_replaced_is_not_of_the_run(
    session: Session, first: str, then: str, asked: list[int]
) -> None:
    """It was there before the run, though its inode was not."""
    session.is_alone = True
    session.run()
    session.ask_beyond = (0, 0)
    await session.bash(first)
    session.ask_beyond = (4, 0)

    said = await session.bash(then)

    assert [loss.files for loss in session.asked] == asked, said


@watching
async def test_without_a_person_a_file_that_a_tool_wrote_anew_is_not_of_the_run(
    session: Session,
) -> None:
    """Tools put a new file in place of the old one, as `sed -i` does."""
    session.is_alone = True
    session.run()
    for number in range(1, 7):
        await session.write(f"d{number}", "mine\n")
        await session.write(f"n{number}", "mine\n")

    made = await session.bash("rm n?")
    await session.bash("rm d?")

    assert "exit 0" in made
    assert [loss.files for loss in session.asked] == [4]


@watching
@pytest.mark.parametrize(
    ("command", "asked"),
    [
        ("sed -i s/1/2/ m?", []),  # a new file in place of each, as formatters do
        (f"{EDIT}; done", []),  # into the same file
        (f"{EDIT}; done; {EDIT}; done", []),
        ("sed -i s/1/2/ m?; rm d1 d2", []),
        ("sed -i s/1/2/ m? d?", [4]),
        (f"{EDIT}; done; rm m?", [4]),  # what it has overwritten is not what git holds
        ("rm m?", [4]),
    ],
)
async def test_with_a_person_overwriting_what_git_holds_does_not_count_but_deleting_does(
    session: Session, command: str, asked: list[int]
) -> None:
    """A formatter over the tree is no loss; twenty files fewer are a surprise."""
    before = tree(session.root)

    await session.bash(command)

    assert [loss.files for loss in session.asked] == asked
    session.undo()
    assert tree(session.root) == before


@watching
async def test_with_a_person_what_was_edited_since_the_commit_counts(session: Session) -> None:
    run(f"{EDIT}; done", session.root)

    await session.bash("sed -i s/1/2/ m?")

    assert [loss.files for loss in session.asked] == [4]


@watching
async def test_with_a_person_what_git_holds_counts_and_what_the_command_made_does_not(
    session: Session,
) -> None:
    """Git gives a new index the name of the old one, each time."""
    for command in ("git mv m1 n; git mv n m1; git mv m1 n; git mv n m1; git mv m1 n", "rm m?"):
        await session.bash(command)

    assert [loss.files for loss in session.asked] == [4]


@watching
@pytest.mark.parametrize(
    ("command", "asked"),
    [
        ("git checkout -q other", 0),
        ("git checkout -q other; git checkout -q -; rm d1", 0),
        ("git gc -q --prune=now", 0),
        ("git rm -q m?", 0),
        ("git checkout -q . # edited", 1),
        ("git clean -fdq", 1),
        ("rm -r .git/objects", 1),
        ("ln -s $(which rm) git; ./git m?", 1),
    ],
)
@pytest.mark.parametrize("is_alone", [False, True])
async def test_what_git_itself_can_bring_back_counts_for_nobody(
    session: Session, command: str, asked: int, is_alone: bool
) -> None:
    """Each `git commit` may pack the repository, and each change of branch writes many files."""
    if command.endswith("edited"):
        run(f"{EDIT}; done", session.root)
    session.run()
    session.is_alone = is_alone
    before = tree(session.root)

    said = await session.bash(command)

    # Where nobody can be asked, git's files do not count whoever deletes them.
    asked -= is_alone and command.endswith("git m?")
    assert len(session.asked) == asked, said
    session.undo()
    assert tree(session.root) == before or "gc" in command


@pytest.mark.parametrize("version", [2, 3, 4])
def test_index_is_read_in_each_of_its_forms(tmp_path: Path, version: int) -> None:
    """The fourth leaves out the beginnings of names; a file may begin with the whole last name."""
    names = ["a", "a.b", "ab/c", "ab/c.d", "b" * 200, "b" * 200 + "c", "z\xe9 1"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    added = "git add -N z*; git add ':!z*'" if version == 3 else "git add ."
    run(f"git init -q .; {added}; git update-index --index-version {max(version, 2)}", tmp_path)

    entries = {os.fsdecode(each.path): each for each in index_entries(index_of(tmp_path))}

    assert index_of(tmp_path)[7] == version
    assert sorted(entries) == sorted(names)
    listed = subprocess.check_output(["git", "ls-files", "-sz"], cwd=tmp_path)
    ids = {
        os.fsdecode(row.partition(b"\t")[2]): row.split()[1].decode()
        for row in listed.split(b"\0")
        if row
    }
    assert {name: each.content.hex() for name, each in entries.items()} == ids


def index_of(root: Path) -> bytes:
    return (root / ".git/index").read_bytes()


@pytest.mark.parametrize("changed", ["content", "time", "nothing", "racy", "folder"])
def test_file_is_held_only_with_the_content_that_git_has(tmp_path: Path, changed: str) -> None:
    """Also if its size and time do not tell."""
    path = tmp_path / "sub/file"
    path.parent.mkdir()
    path.write_text("one")
    run("git init -q .; git add .", tmp_path)
    state, later = path.stat(), time.time_ns() + 5_000_000_000
    os.utime(tmp_path / ".git/index", ns=(later, later))
    if changed == "content":
        path.write_text("two2")
    elif changed == "time":
        path.touch()
    elif changed == "racy":
        path.write_text("two")
        os.utime(path, ns=(state.st_mtime_ns, state.st_mtime_ns))
        os.utime(tmp_path / ".git/index", ns=(state.st_mtime_ns, state.st_mtime_ns))
    elif changed == "folder":
        (tmp_path / ".git/index").write_bytes(b"DIRC\0\0\0\2\0\0\0\1")

    held = HeldFiles().holds(str(path), path.stat())

    assert held is (changed in ("time", "nothing"))


@pytest.mark.parametrize("content", [None, "", "gitdir: \n", "nothing of git's"])
def test_file_that_names_no_git_folder_lets_none_of_the_tree_be_its_index(
    tmp_path: Path, content: str | None
) -> None:
    """A file "index" beside it would say what git holds. None: a link, which is not followed."""
    path, git = tmp_path / "a.txt", tmp_path / ".git"
    path.touch()
    run("git init -q .; git add .; mv .git/index .; mv .git elsewhere", tmp_path)
    later = time.time_ns() + 5_000_000_000
    os.utime(tmp_path / "index", ns=(later, later))
    git.symlink_to("a.txt") if content is None else git.write_text(content)

    assert not HeldFiles().holds(str(path), path.stat())


@pytest.mark.parametrize("place", [".git", ".git/index"])
def test_named_pipe_in_the_place_of_a_git_file_holds_nothing(tmp_path: Path, place: str) -> None:
    """It stands in the keeper: the command was let go on unprotected after five seconds."""
    (tmp_path / place).parent.mkdir(exist_ok=True)
    os.mkfifo(tmp_path / place)
    path = tmp_path / "a.txt"
    path.touch()
    found: list[bool] = []
    looking = threading.Thread(
        target=lambda: found.append(HeldFiles().holds(str(path), path.stat())), daemon=True
    )

    looking.start()
    looking.join(LIMIT_S)

    assert found == [False]
