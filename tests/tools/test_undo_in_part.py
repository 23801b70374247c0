"""/undo of a run of whose files some changed since: those stay, the others go back."""

import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_cli.contracts.errors import AgentCliError
from agent_cli.undo.stopped_calls import why_missing
from agent_cli_tools.snapshots.kept_versions import kept_versions, restore
from tests.tools.test_snapshots import Session as EditSession
from tests.tools.test_undo_commands import Session
from tests.tools.undoing import of_commands, of_edits, tree

watched = pytest.mark.skipif(why_missing() != "", reason=why_missing() or "-")


@pytest.fixture
def edits(tmp_path: Path) -> Iterator[EditSession]:
    yield from of_edits(EditSession, tmp_path)


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    yield from of_commands(Session, tmp_path, monkeypatch)


def files(root: Path) -> dict[str, tuple[object, ...]]:
    """Return each file with its content and mode."""
    return {name: each[:2] for name, each in tree(root).items() if each[0] != stat.S_IFDIR}


def different(one: dict[str, tuple[object, ...]], other: dict[str, tuple[object, ...]]) -> set[str]:
    """Return the files that differ."""
    return {name for name in {*one, *other} if one.get(name) != other.get(name)}


class Model:
    """Collects what the model is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def tell_model(self, text: str) -> None:
        self.notes.append(text)


async def test_edits_of_other_files_are_taken_back(edits: EditSession) -> None:
    """The user's file stays with both changes, and its folder with it; the plan names it."""
    (edits.root / "a.txt").write_text("one")
    edits.run()
    await edits.write("a.txt", "two")
    await edits.write("src/b.txt", "new")
    await edits.write("src/c.txt", "new")
    mine = edits.root / "src/c.txt"
    mine.write_text("new, and mine")

    planned = edits.snapshots.planned_undo()
    taken = edits.undo(in_part=True)

    assert (planned.edits, planned.files, planned.kept) == (2, 2, {mine: ""})
    assert (taken.restored, taken.deleted) == ([edits.root / "a.txt"], [edits.root / "src/b.txt"])
    assert taken.kept == {mine: ""}
    assert edits.files() == {"a.txt": "one", "src": "/", "src/c.txt": "new, and mine"}


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_rest_is_taken_back_once_the_file_is_as_the_run_left_it(
    edits: EditSession, is_restarted: bool
) -> None:
    """Until then it stands in no other undo's way; the model reads of each part."""
    (edits.root / "a.txt").write_text("zero")
    edits.run()
    await edits.write("a.txt", "one")
    await edits.write("first.txt", "1")
    edits.run()
    await edits.write("src/a.txt", "two")
    await edits.write("b.txt", "b")
    (edits.root / "src/a.txt").write_text("two, and mine")
    edits.undo(in_part=True)
    if is_restarted:
        edits.again()

    of_rest = [str(each.path) for each in edits.snapshots.differences(last_run=True)]
    runs = edits.snapshots.changed_runs()
    first = edits.undo()
    with pytest.raises(AgentCliError, match=r"undone already, but for files that changed since"):
        edits.undo()
    (edits.root / "src/a.txt").write_text("two")
    rest = edits.undo()

    assert of_rest == [str(edits.root / "src/a.txt")]
    assert len(runs) == 1
    assert first.deleted == [edits.root / "first.txt"]
    assert (rest.deleted, rest.kept) == ([edits.root / "src/a.txt"], {})
    assert edits.files() == {"a.txt": "zero"}
    edits.snapshots.tell_model(model := Model())
    assert ["stay, because those files changed since" in note for note in model.notes] == [
        *(False, True, False)
    ]
    with pytest.raises(AgentCliError, match=r"undone already$"):
        edits.undo()


async def test_changes_after_an_undo_in_part_are_a_run_beside_the_rest(edits: EditSession) -> None:
    """An agent of the run may still work in the background."""
    edits.run()
    await edits.write("a.txt", "one")
    await edits.write("b.txt", "b")
    (edits.root / "a.txt").write_text("mine")
    edits.undo(in_part=True)
    await edits.write("c.txt", "c")

    taken = edits.undo()

    assert (taken.deleted, taken.kept) == ([edits.root / "c.txt"], {})
    assert edits.files() == {"a.txt": "mine"}


async def test_run_of_which_every_file_changed_is_refused(edits: EditSession) -> None:
    edits.run()
    await edits.write("a.txt", "one")
    (edits.root / "a.txt").write_text("mine")

    for _ in range(2):
        with pytest.raises(AgentCliError, match="nothing was undone, because somebody changed"):
            edits.undo(in_part=True)

    assert edits.files() == {"a.txt": "mine"}


@pytest.mark.parametrize("moved", ["", "src"])
async def test_folder_that_was_moved_is_named_where_its_files_cannot_be_taken_back(
    edits: EditSession, moved: str
) -> None:
    """It read "somebody changed these files too" after a `mv` of the whole workspace."""
    edits.run()
    (edits.root / "src/deep").mkdir(parents=True)
    (edits.root / "src/deep/a.txt").write_text("one")
    await edits.write("src/deep/a.txt", "two")
    folder = edits.root / moved
    there = folder.rename(edits.root.parent / "there")

    with pytest.raises(
        AgentCliError, match=rf"a\.txt \({folder} was moved or deleted\); /diff run"
    ):
        edits.undo()
    there.rename(folder)

    assert edits.undo().restored == [edits.root / "src/deep/a.txt"]


def made_again(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("mine")


CHANGES: list[Callable[[Path], object]] = [
    lambda root: (root / "src/a1.py").write_text("mine"),
    lambda root: (root / "src/a1.py").unlink(),
    lambda root: (root / "src/a1.py").chmod(0o600),
    lambda root: made_again(root / "data/p1.bin"),
    lambda root: (root / "new/x").write_text("mine"),
]


@watched
@pytest.mark.parametrize("change", CHANGES, ids=["written", "deleted", "mode", "again", "made"])
async def test_what_commands_did_to_other_files_is_taken_back(
    session: Session, change: Callable[[Path], object]
) -> None:
    """Written, deleted, given a mode, made again; what the run's file held before stays kept."""
    before = files(session.root)
    session.run()
    await session.write("src/a5.py", "by a tool")
    await session.bash("sed -i s/x/y/ src/*.py; rm -r data; mkdir new; touch new/x new/y")
    after = files(session.root)
    change(session.root)
    mine = files(session.root)
    [own] = different(after, mine)

    planned = session.snapshots.planned_undo()
    taken = session.undo(in_part=True)

    assert [*planned.kept] == [*taken.kept] == [session.root / own]
    assert taken.faults == []
    assert files(session.root).get(own) == mine.get(own)
    assert different(before, files(session.root)) == {own}
    kept = [each for each in kept_versions(session.state, session.root / own) if own in before]
    assert len(kept) == (own in before)
    for version in kept:
        restore(version, session.state)
        assert files(session.root)[own][0] == before[own][0]


@watched
async def test_rest_of_commands_is_taken_back_later_with_all_that_is_kept(session: Session) -> None:
    """Also after a restart; then nothing of the run is kept any longer."""
    before = files(session.root)
    session.run()
    await session.bash("sed -i s/x/y/ src/*.py; rm -r data")
    path = session.root / "src/a1.py"
    left, text = path.stat(), path.read_text()
    path.write_text("mine")
    session.undo(in_part=True)
    session.again()
    assert [*session.diff()] == ["src/a1.py"]
    assert session.snapshots.changed_runs() == []

    path.write_text(text)
    os.utime(path, ns=(left.st_atime_ns, left.st_mtime_ns))
    session.undo()

    assert files(session.root) == before
    kept = [each for each in session.state.glob("s-1/commands/*/*") if each.is_file()]
    assert {each.name for each in kept} <= {"log.jsonl", "lock"}


@watched
async def test_renamed_file_stays_under_its_new_name(session: Session) -> None:
    """Both names are kept; an edit of it before the rename stays, too."""
    session.run()
    await session.write("src/a1.py", "by a tool")
    await session.bash("mv src/a1.py src/b1.py; rm -r data")
    (session.root / "src/b1.py").write_text("mine")

    taken = session.undo(in_part=True)

    old, new = session.root / "src/a1.py", session.root / "src/b1.py"
    assert taken.kept == {new: f"moved from {old}", old: ""}
    assert (old.exists(), new.read_text()) == (False, "mine")
    assert (session.root / "data/p7.bin").exists()


@watched
async def test_renamed_folder_stays_where_its_old_name_was_used_again(session: Session) -> None:
    """It cannot go back there; without a word, the undo passed for complete."""
    session.run()
    await session.bash("mv src pkg; rm -r data")
    (session.root / "src").mkdir()

    taken = session.undo(in_part=True)

    assert taken.kept == {session.root / "src": ""}
    assert (session.root / "pkg/a1.py").exists()
    assert (session.root / "data/p7.bin").exists()


@watched
async def test_folder_that_a_tool_made_under_an_old_name_is_in_no_way(session: Session) -> None:
    before = files(session.root)
    session.run()
    await session.bash("mv src pkg")
    await session.write("src/new.py", "new")

    taken = session.undo()

    assert taken.kept == {}
    assert files(session.root) == before


@watched
async def test_file_with_two_names_stays_under_both(session: Session) -> None:
    """What the user wrote under one would come back as what the other held before."""
    session.run()
    await session.bash("ln src/a1.py src/b1.py; rm src/a1.py; rm -r data")
    (session.root / "src/b1.py").write_text("mine")

    taken = session.undo(in_part=True)

    old, new = session.root / "src/a1.py", session.root / "src/b1.py"
    assert {*taken.kept} == {old, new}
    assert (old.exists(), new.read_text()) == (False, "mine")
    assert (session.root / "data/p7.bin").exists()


@watched
@pytest.mark.parametrize(
    ("command", "mine"),
    [
        ("mv src pkg; touch pkg/a1.py; rm -r data", "pkg/a1.py"),
        ("git commit -qam y; rm -r data", ".git/COMMIT_EDITMSG"),
        ("rm link; mkdir link; touch link/x; rm -r data", "link/x"),
        ("mkdir one; touch one/x; mv one two; rm -r data", "two/x"),
    ],
)
async def test_what_cannot_be_left_out_refuses_the_whole_undo(
    session: Session, command: str, mine: str
) -> None:
    """A renamed folder goes back as a whole, and so does git; a folder may hide a file."""
    session.run()
    await session.bash(command)
    (session.root / mine).write_text("mine\n")
    since = tree(session.root)

    with pytest.raises(AgentCliError, match=f"nothing was undone.*{mine}"):
        session.undo(in_part=True)

    assert tree(session.root) == since


@watched
async def test_record_of_an_undo_in_part_is_one_line(session: Session) -> None:
    """An earlier version of the program, which does not know `left`, reads it as a whole undo."""
    session.run()
    await session.bash("echo x > src/a1.py; rm -r data")
    (session.root / "src/a1.py").write_text("mine")

    session.undo(in_part=True)

    lines = (session.state / "s-1/changes.jsonl").read_text().splitlines()
    found = json.loads(lines[-1])
    assert (found["taken_back"], found["left"]) == (True, [str(session.root / "src/a1.py")])
