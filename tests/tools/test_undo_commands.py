"""/undo of what commands did: the real tool, in each sandbox and without one."""

import asyncio
import contextlib
import errno
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import pytest

from agent_cli.contracts.errors import AgentCliError, ToolError
from agent_cli.contracts.events import SessionOpened
from agent_cli.contracts.file_changes import Difference
from agent_cli.system.launching import NamedFiles, Watched
from agent_cli.undo import reversal
from agent_cli.undo.logs import CommandQuestion, Loss
from agent_cli.undo.records import LOG
from agent_cli.undo.stopped_calls import why_missing
from agent_cli_tools import command_run
from agent_cli_tools.snapshots import Snapshots
from agent_cli_tools.snapshots.journal import Journal
from agent_cli_tools.snapshots.kept_versions import kept_versions, restore
from tests.tables import each_row
from tests.tools.calling import Tools
from tests.tools.undoing import ToolSession, fill, of_commands, tree
from tests.waiting import until

pytestmark = pytest.mark.skipif(why_missing() != "", reason=why_missing() or "-")


class Session(ToolSession):
    """A session in a small repository, whose commands are watched."""

    def __init__(self, root: Path, state: Path) -> None:
        self.asked: list[Loss] = []
        self.answer: Callable[[], Awaitable[bool]] | None = None
        self.ask_beyond: tuple[int, int] = (0, 0)
        self.takes_rights = False
        self.is_alone = False
        self.named_before: Callable[[str], NamedFiles | None] = lambda _command: None
        super().__init__(root, state)

    def keeper(self) -> Snapshots:
        def watched(folder: Path, command: str, run_began_ns: int) -> Watched:
            return Watched(
                module="agent_cli.undo.watch",
                folder=str(folder),
                roots=[str(self.root)],
                copy_bytes_max=1_000_000,
                header={"command": command},
                takes_rights=self.takes_rights,
                ask_beyond_files=self.ask_beyond[0],
                ask_beyond_bytes=self.ask_beyond[1],
                alone_since_ns=run_began_ns if self.is_alone else 0,
                named=self.named_before(command),
            )

        def only_reads(command: str) -> bool:
            return command.startswith("cat")

        async def decide(_command: str, loss: CommandQuestion) -> bool:
            assert isinstance(loss, Loss)
            self.asked.append(loss)
            assert self.answer
            return await self.answer()

        snapshots = Snapshots(self.state, only_reads=only_reads, watched=watched)
        snapshots.decide = decide
        return snapshots

    def diff(self) -> dict[str, Difference]:
        found = self.snapshots.differences()
        return {str(each.path.relative_to(self.root)): each for each in found}


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    yield from of_commands(Session, tmp_path, monkeypatch)


def _always(_sandbox: Sequence[str], *, restricts_itself: bool) -> bool:
    del restricts_itself
    return True


def git(root: Path, *words: str) -> str:
    """Run git as a person would, and return its output."""
    return subprocess.check_output(["git", *words], cwd=root, text=True).strip()


COMMANDS = [
    "rm -rf data",
    "git clean -fdxq",
    "git checkout -q -- .",
    "mkdir t && mv data t/ && rm -rf t",
    "for f in src/*.py; do : > $f; done",
    "sed -i s/x/y/ src/*.py",
    "chmod -R 000 src; chmod -R 755 src",
    "truncate -s 0 data/*",
    "rm link && ln -s data link; rm -f sparse; mkfifo fifo",
    "mv src/a1.py src/a2.py; echo a >> hard; cp /etc/passwd src/a5.py",
    "git stash -q -u",
    "git reset -q --hard; git branch -qD other; git checkout -qb new; rm hard; git commit -qam y",
    "echo z > link; echo y > /proc/self/cwd/src/a6.py; exec 3<src/a7.py; echo w > /proc/self/fd/3",
    "mv src src2; mv data src; mv src2 data; echo hi > data/a1.py; rm data/a2.py; chmod 700 src",
    "tar cf - data | (mkdir n && cd n && tar xf -) && rm -rf data && mv n/data .",
    "for i in 1 2 3; do (for j in 1 2 3; do echo $i > f$i$j; mv f$i$j src/p$j; done) & done; wait",
    'git -c protocol.file.allow=always submodule -q add "$PWD" sub; git commit -qm sub',
    "touch -d 2001-01-01 src/a5.py src; ln src/a4.py more; cp -a src copy; rm -r src",
    "mv . src; mkdir /dev/shm/$$ && { mv -T /dev/shm/$$ src; rmdir /dev/shm/$$; }; echo x > new",
    'python3 -c \'import shutil as s; s.move(s.copy("link", "/dev/shm/x1"), "hard")\'',
    "mv . data; rm -rf data; mkdir d && mv -T /dev/shm/no src",
    "touch -d 2001-01-01 .; chmod 711 .; setfattr -n user.x -v y . || :",
    'chmod 711 "$PWD"; ln -s "$PWD" /dev/shm/x2; touch -d 2001-01-01 /dev/shm/x2; rm /dev/shm/x2',
    "ln src/a4.py more; echo x >> more; ln src/a5.py mode; chmod 600 mode; ln src/a6.py to/.. || :",
    "ln src/a4.py one; rm src/a4.py; echo x > one; mv src/a5.py two; ln two three; echo x > three",
    "ln src/a4.py one; mv one two; truncate -s 0 two; ln src/a5.py t; mkdir d; mv t d; : > d/t",
    "cp -al src copy; cp -al copy copy/in; echo x > copy/in/a1.py; rm -r src",
    "cp -al src c1; cp -al c1 c1/c2; mv c1/c2 src/; echo y > src/c2/a3.py; rm -rf src/c2/deep c1",
    "mkdir n; cp -al src n/; cp -al n src/n; echo z >> src/n/src/a2.py; chmod 600 n/src/a1.py",
]


async def test_files_with_the_longest_names_are_restored(session: Session) -> None:
    """A name has at most 255 bytes, and what is put aside gets a name made of it."""
    long = "文" * 85
    (session.root / f"{long}").write_text("old")
    (session.root / f"src/{long}").write_text("old")
    before = tree(session.root)
    session.run()
    await session.bash(f": > new{long[3:]}; rm {long}; : > {long}; rm -f src/{long[:-1]}?")
    await session.write(f"src/{long}", "new")

    taken = session.undo()

    assert (list(taken.faults), tree(session.root)) == ([], before)


async def test_undo_leaves_files_alone_that_are_named_like_its_drafts(session: Session) -> None:
    """It copied what it gives back to `.NAME.undo`, over a file of the user's, and renamed that."""
    session.run()
    await session.write("new", "old")
    (session.root / ".new.undo").write_text("mine")
    names = {*session.root.iterdir()}
    session.run()
    await session.write("new", "new")
    await session.bash("echo x > other")

    session.undo()

    assert (session.root / "new").read_text() == "old"
    assert (session.root / ".new.undo").read_text() == "mine"
    assert {*session.root.iterdir()} == names


async def test_unreadable_record_of_an_earlier_command_stops_no_later_one(
    session: Session,
) -> None:
    """Where nobody can be asked, each command of a run looks at the records of those before."""
    session.is_alone = True
    session.run()
    await session.bash("rm data/a1.py")
    (log,) = session.state.glob(f"s-1/commands/*/{LOG}")
    log.unlink()
    log.mkdir()

    assert "exit 0" in await session.bash("echo x > new")

    assert (session.root / "new").exists()


async def test_model_reads_which_files_it_knows_a_command_changed(session: Session) -> None:
    """What the kernel saw counts, not the names in the text of the command."""
    for name in ("src/a1.py", "src/a2.py", "src/a3.py"):
        await session.tools.text("read", path=name)
    session.run()

    command = "sed -i s/x/y/ src/a[14].py; cat src/a2.py; : > n"
    found = await session.tools("bash", command=command)
    quiet = await session.bash("echo hello > n2")

    root = session.root
    assert f"[this command changed files that you have read: {root}/src/a1.py]" in found.text
    assert isinstance(found.details, dict)
    assert found.details["changed_files"] == [f"{root}/src/a1.py", f"{root}/src/a4.py", f"{root}/n"]
    assert found.details["changed_count"] == 3
    assert "[this" not in quiet


TESTS = "mkdir -p __pycache__ .tox; echo $RANDOM$$ > __pycache__/a.pyc; date +%N > .tox/x"
"""What a run of tests does to the workspace."""


async def test_caches_of_tests_are_no_changes(session: Session) -> None:
    """A run that only tested is not the one to undo, and who tested since changed nothing."""
    before = tree(session.root)
    session.run()
    changed = await session.tools("bash", command=f"echo new > src/a1.py; {TESTS}")
    session.run()
    looked = await session.tools("bash", command=TESTS)
    subprocess.run(["bash", "-c", TESTS], cwd=session.root, check=True)  # noqa: ASYNC221

    found = session.undo()

    assert isinstance(changed.details, dict)
    assert isinstance(looked.details, dict)
    assert changed.details["changed_files"] == [f"{session.root}/src/a1.py"]
    assert "changed_files" not in looked.details
    assert (found.restored, found.deleted) == ([session.root / "src/a1.py"], [])
    after = tree(session.root)
    assert after["src/a1.py"] == before["src/a1.py"]


async def test_undo_says_which_session_changed_a_file_since(session: Session) -> None:
    """Two sessions in one folder: the person reads whose command stands in the way."""
    session.run()
    await session.bash("echo one > src/a1.py; echo one > src/a2.py; echo one > src/a3.py")
    session.again()
    session.snapshots(SessionOpened("s-2", "path"))
    session.run()
    await session.bash("echo two > src/a1.py")
    await session.write("src/a2.py", "two")
    (session.root / "src/a3.py").write_text("mine")
    session.again()

    with pytest.raises(AgentCliError) as refusal:
        session.undo()

    root = session.root
    assert (
        f"{root}/src/a1.py (session s-2 ran `echo two > src/a1.py`),"
        f" {root}/src/a2.py (session s-2 edited it), {root}/src/a3.py;"
    ) in str(refusal.value)


async def test_open_session_is_known_to_others_with_the_files_that_it_changed(
    session: Session,
) -> None:
    """As long as it is open, and without what was undone since."""
    other = Session(session.root, session.state)
    other.snapshots(SessionOpened("s-2", "path"))
    other.run()
    await other.write("src/a1.py", "new")
    await other.bash("rm -rf data/a1.py && touch fresh")
    session.run()

    found = session.snapshots.others_at_work()

    assert [*found] == ["s-2"]
    named = {str(path.relative_to(session.root)) for path in found["s-2"]}
    assert {"src/a1.py", "fresh"} <= named
    other.undo()
    assert session.snapshots.others_at_work() == {"s-2": []}
    other.snapshots(SessionOpened("s-3", "path"))
    assert session.snapshots.others_at_work() == {}
    other.close()


@pytest.mark.parametrize(
    ("change", "who"),
    [
        ("write", "session s-2 edited it"),
        ("sed -i s/x/y/ src/a1.py; echo y >> src/a1.py", "session s-2 ran `sed -i"),
    ],
)
async def test_model_reads_which_session_changed_a_file_since_it_read_it(
    session: Session, change: str, who: str
) -> None:
    await session.tools.text("read", path="src/a1.py")
    other = Session(session.root, session.state)
    other.snapshots(SessionOpened("s-2", "path"))
    other.run()
    await (other.write("src/a1.py", "new") if change == "write" else other.bash(change))
    session.run()

    refused = (await session.tools("write", path="src/a1.py", content="mine")).text

    assert f"has changed since you read it ({who}" in refused
    other.close()


async def test_model_that_edited_a_changed_file_reads_which_session_changed_it(
    session: Session,
) -> None:
    """Its own edit is the last change, and was called that of another agent."""
    (session.root / "src/a1.py").write_text("one\ntwo\n")
    await session.tools.text("read", path="src/a1.py")
    other = Session(session.root, session.state)
    other.snapshots(SessionOpened("s-2", "path"))
    other.run()
    await other.write("src/a1.py", "uno\ntwo\n")
    session.run()
    await session.tools.text("edit", path="src/a1.py", edits=[{"old": "two", "new": "due"}])

    refused = (await session.tools("write", path="src/a1.py", content="mine")).text
    again = await session.tools.text("edit", path="src/a1.py", edits=[{"old": "uno", "new": "1"}])

    assert "has changed since you read it (session s-2 edited it)" in refused
    assert "had changed since you read it (session s-2 edited it)" in again
    other.close()


async def test_agent_reads_that_another_agent_of_the_session_changed_a_file(
    session: Session,
) -> None:
    session.run()
    other = Tools(session.workspace.for_another_agent())
    await other.text("read", path="src/a1.py")
    await session.write("src/a1.py", "new")

    refused = (await other("write", path="src/a1.py", content="mine")).text

    who = "another agent or command of this session edited it"
    assert f"src/a1.py has changed since you read it ({who})" in refused


async def test_change_by_hand_after_an_edit_is_called_nobodys(session: Session) -> None:
    """Edits of the model itself and of other sessions are on record; a person's are not."""
    session.run()
    await session.tools.text("read", path="src/a1.py")
    await session.write("src/a1.py", "one\n")
    (session.root / "src/a1.py").write_text("by hand\n")
    after_own = (await session.tools("write", path="src/a1.py", content="mine")).text
    other = Session(session.root, session.state)
    other.snapshots(SessionOpened("s-2", "path"))
    other.run()
    await other.tools.text("read", path="src/a1.py")
    await other.write("src/a1.py", "uno\n")
    (session.root / "src/a1.py").write_text("by hand again\n")
    after_other = (await session.tools("write", path="src/a1.py", content="mine")).text

    assert "src/a1.py has changed since you read it, so it was not replaced" in after_own
    assert "src/a1.py has changed since you read it, so it was not replaced" in after_other
    other.close()


async def test_end_of_a_job_says_which_files_it_changed(session: Session) -> None:
    """The model, and `/jobs`."""
    session.run()
    await session.tools.text("read", path="src/a1.py")

    await session.bash("sleep 0.5; echo > src/a1.py; echo > fresh", background=True)
    jobs = session.workspace.shared.jobs
    looking = asyncio.create_task(jobs.look_after())
    await until(lambda: jobs.all[0].info(is_own=True).notes)
    looking.cancel()

    src = f"{session.root}/src/a1.py"
    told = f"It changed 2 files: {src}, {session.root}/fresh; of these you have read {src}"
    assert jobs.all[0].info(is_own=True).notes == [told]
    [news] = await jobs.take_news(lambda _call: True)
    assert told in news.text


async def test_what_a_command_changes_that_ran_during_an_undo_is_undone_next(
    session: Session,
) -> None:
    """A job of the run, or of an agent in the background, had changed nothing yet."""
    before = tree(session.root)
    session.run()
    await session.bash("echo > src/a1.py")
    waits = "until [ -e go ]; do sleep 0.01; done; echo > src/a2.py; echo > fresh"
    await session.bash(waits, background=True)
    jobs = session.workspace.shared.jobs

    assert session.undo().restored == [session.root / "src/a1.py"]
    looking = asyncio.create_task(jobs.look_after())
    (session.root / "go").touch()
    await until(lambda: not jobs.all[0].is_running)
    looking.cancel()
    session.again()
    taken = session.undo()

    assert (taken.undone, taken.restored, taken.deleted) == (
        [waits],
        [session.root / "src/a2.py"],
        [session.root / "fresh"],
    )
    (session.root / "go").unlink()
    now = tree(session.root)
    assert {name for name in {*before, *now} if before.get(name) != now.get(name)} <= {"."}


async def test_command_that_is_not_to_run_leaves_no_record(session: Session) -> None:
    async def refuse(command: str) -> None:
        raise ToolError(f"not {command}")

    session.run()
    session.snapshots.before = refuse

    assert (await session.tools("bash", command="rm -rf data")).text == "not rm -rf data"
    assert "exit 0" in await session.bash("cat src/a1.py")  # it only reads

    assert (session.root / "data").is_dir()
    assert session.snapshots.commands() == []


@pytest.mark.parametrize("takes_rights", [False, True])
async def test_command_that_may_gain_rights_is_recorded_only_if_the_user_says_so(
    session: Session, monkeypatch: pytest.MonkeyPatch, takes_rights: bool
) -> None:
    """By default a script's sudo goes on working; see `undo/watchable`."""
    monkeypatch.setattr(command_run, "may_gain_rights", _always)
    session.takes_rights = takes_rights
    before = tree(session.root)
    session.run()

    await session.bash("rm -r data")

    if takes_rights:
        session.undo()
    else:
        with pytest.raises(AgentCliError):
            session.undo()
    assert (tree(session.root) == before) == takes_rights


@each_row("command", COMMANDS)
async def test_undo_leaves_the_workspace_as_it_was_before_a_command(
    session: Session, command: str
) -> None:
    """Which each command after it relies on."""
    before = tree(session.root)
    session.run()
    await session.bash(command)
    assert tree(session.root) != before, "it changed nothing"

    taken = session.undo()

    assert tree(session.root) == before
    assert (taken.undone, taken.commands, taken.faults) == ([command], [], [])


@pytest.mark.parametrize(
    "command",
    [
        "cp -al src ../out; echo x > ../out/a1.py",
        "ln src/a2.py ../out; mv ../out ../out2; truncate -s 3 ../out2",
        "cp -al src ../out; chmod 600 ../out/a3.py; touch -d 2001-01-01 ../out/a4.py",
        "mv data ../out; mv ../out/p1.bin ../out/q; rm ../out/p2.bin; mv ../out data",
        "mv data ../out; echo x > ../out/p1.bin; mv ../out data",
        "mv data/p1.bin ../out; echo x > ../out",
        "ln src/a1.py ../out; rm src/a1.py; echo x >> ../out; chmod 600 ../out",
        "ln src/a1.py ../out; mv src/a1.py src/b.py; mv src lib; exec 3<>../out; echo x >&3",
    ],
)
async def test_change_under_a_name_outside_of_the_workspace_is_undone(
    session: Session, command: str
) -> None:
    """The file is the workspace's, whatever its name; what stays outside holds one more link."""
    before = tree(session.root)
    session.run()
    await session.bash(command)

    taken = session.undo()

    after = tree(session.root)
    assert {path: each[:-1] for path, each in after.items()} == {
        path: each[:-1] for path, each in before.items()
    }
    assert taken.faults == []


@pytest.mark.parametrize(("number", "is_asked"), [(errno.ENOSPC, True), (errno.EROFS, False)])
async def test_loss_is_asked_about_where_the_session_has_no_room_for_a_record(
    session: Session, monkeypatch: pytest.MonkeyPatch, number: int, *, is_asked: bool
) -> None:
    """Where it can never write one, a warning says so, and commands go on as before."""

    def full(*_arguments: object, **_options: object) -> Path:
        raise OSError(number, os.strerror(number))

    async def no() -> bool:
        return False

    session.answer, session.ask_beyond = no, (20, 0)
    monkeypatch.setattr(Journal, "new_log", full)

    await session.bash("echo x > new; rm data/p1.bin")

    assert [each.why_unkept for each in session.asked] == [os.strerror(number)] * is_asked
    assert (session.root / "data/p1.bin").exists() == is_asked
    assert (session.root / "new").exists()


ORDINARY = """
import asyncio, ctypes, os, sys
from pathlib import Path
from tests.tools.test_undo_commands import Session, AgentCliError
assert os.geteuid() != 0
session = Session(Path(sys.argv[1]), Path(sys.argv[2]))
session.run()
asyncio.run(session.bash("rm -r src/deep"))
try:
    session.undo()
except AgentCliError as error:
    print(error)
ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS, as many containers do
session.run()
asyncio.run(session.bash("rm -r data"))
print(session.undo().undone)
"""


def test_commands_of_an_ordinary_user_are_recorded_where_they_can_gain_no_rights(
    tmp_path: Path,
) -> None:
    """Without a sandbox too; elsewhere sudo would fail in them, and /undo names them."""
    if "NoNewPrivs:\t1" in Path("/proc/self/status").read_text():
        pytest.skip("no command gains rights here")
    user = ["unshare", "--user", "--map-user=1000"] if os.geteuid() == 0 else []
    if user and subprocess.run([*user, "true"], capture_output=True, check=False).returncode:
        pytest.skip("root cannot become an ordinary user here")
    fill(root := tmp_path / "work")
    program = [sys.executable, "-c", ORDINARY, str(root), str(tmp_path / "state")]

    unrecorded, *undone = subprocess.check_output([*user, *program], text=True).splitlines()

    assert unrecorded.startswith("nothing to undo: ")
    assert "not recorded, so it cannot be undone: rm -r src/deep" in unrecorded
    assert undone == ["['rm -r data']"]
    assert not (root / "src/deep").exists()
    assert len(list(root.glob("data/*"))) == 8


async def test_commands_and_edits_of_a_run_are_undone_in_the_order_in_which_they_came(
    session: Session,
) -> None:
    before = tree(session.root)
    session.run()
    await session.write("src/a0.py", "one\n")
    await session.bash("sed -i s/one/two/ src/a0.py; mv src/a0.py b.py; rm -r data")
    await session.write("b.py", "three\n")
    await session.write("data/new/p1.bin", "text\n")
    await session.bash("echo four >> b.py; echo five > data/new/p1.bin")

    session.undo()

    assert tree(session.root).keys() == before.keys()
    changed = {path for path, about in tree(session.root).items() if about != before[path]}
    assert changed <= {".", "src", "src/a0.py"}, "a tool writes a new file, with new times"
    assert (session.root / "src/a0.py").read_text() == "x = 0\n" * 20


async def test_undo_goes_back_run_by_run(session: Session) -> None:
    """Restored files do not count as changed by somebody else."""
    before = tree(session.root)
    session.run()
    await session.bash("sed -i s/x/y/ src/*.py; rm -r data")
    between = tree(session.root)
    session.run()
    await session.bash("rm src/a1.py; echo new > src/a2.py")

    session.undo()
    assert tree(session.root) == between
    session.again()
    session.undo()
    assert tree(session.root) == before
    with pytest.raises(AgentCliError, match="undone already"):
        session.undo()


@pytest.mark.parametrize("command", ["sed -i s/x/y/ src/*.py", "cp -a data src/more"])
@pytest.mark.parametrize("more", ["true", "touch other"])
async def test_undone_edit_does_not_stand_against_the_undo_of_a_command_before_it(
    session: Session, command: str, more: str
) -> None:
    """The undo of an edit gives a file back its content, but not its time."""
    before = {path: about[:2] for path, about in tree(session.root).items()}
    session.run()
    await session.bash(command)
    between = {path: about[:2] for path, about in tree(session.root).items()}
    path = next(session.root.glob("src/more/p0.bin"), session.root / "src/a1.py")
    for number in range(2):
        session.run()
        await session.write(str(path), f"edit {number}")
        await session.bash(more)

    session.undo()
    session.again()
    session.undo()
    assert {path: about[:2] for path, about in tree(session.root).items()} == between
    assert not any("changed" in each.note for each in session.snapshots.differences())
    session.undo()
    assert {path: about[:2] for path, about in tree(session.root).items()} == before


async def test_change_of_the_person_before_an_undone_edit_stands_against_the_undo(
    session: Session,
) -> None:
    session.run()
    await session.bash("sed -i s/x/y/ src/*.py")
    (session.root / "src/a1.py").write_text("mine")
    session.run()
    await session.write("src/a1.py", "an edit")
    session.undo()

    with pytest.raises(AgentCliError, match=r"a1\.py"):
        session.undo()
    assert (session.root / "src/a1.py").read_text() == "mine"


FOLDER_MOVED = [
    ["sed -i s/x/y/ src/*.py", "mv src new"],
    ["sed -i s/x/y/ src/*.py", "mkdir -p a; mv src a/", "mv a/src new"],
    ["sed -i s/x/y/ src/*.py", "mv src new; mkdir src", "sed -i s/y/z/ new/*.py"],
    ["edit src/a1.py", "mv src new", "edit new/a1.py", "mv new b", "mv b new"],
]


@pytest.mark.parametrize("commands", FOLDER_MOVED)
async def test_folder_is_moved_after_a_change_in_it_and_undone_unless_the_person_changed_it(
    session: Session, commands: list[str]
) -> None:
    """Its files are looked for where the run left them."""
    before = {path: about[:2] for path, about in tree(session.root).items()}
    session.run()
    for number, command in enumerate(commands):
        if command.startswith("edit "):
            await session.write(command.removeprefix("edit "), f"edit {number}")
        else:
            await session.bash(command)
    path = session.root / "new/a1.py"
    left, state = path.read_text(), path.stat()

    path.write_text("mine")
    with pytest.raises(AgentCliError, match=r"changed these files too: .*new/a1\.py"):
        session.undo()
    assert path.read_text() == "mine"

    path.write_text(left)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    session.undo()
    assert {path: about[:2] for path, about in tree(session.root).items()} == before


async def test_change_of_the_person_before_a_command_in_a_moved_folder_refuses_the_undo(
    session: Session,
) -> None:
    session.run()
    await session.bash("sed -i s/x/y/ src/*.py")
    await session.bash("mv src new")
    (session.root / "new/a1.py").write_text("mine")
    await session.bash("echo more >> new/a1.py")

    with pytest.raises(AgentCliError, match=r"new/a1\.py"):
        session.undo()


@pytest.mark.parametrize("is_prompted", [False, True])
async def test_undo_after_one_that_stopped_goes_on_with_that_and_takes_back_no_other(
    session: Session, monkeypatch: pytest.MonkeyPatch, is_prompted: bool
) -> None:
    """The message says so; what a new prompt changes never meets half of an undo."""
    session.run()
    await session.bash("echo new > src/a2.py")
    between = tree(session.root)
    stopped = session.run()
    await session.bash("rm -r data; sed -i s/x/y/ src/*.py")
    with monkeypatch.context() as patch, pytest.raises(AgentCliError, match="goes on from there"):
        patch.setattr(reversal, "follow_times", _full_disk)
        session.undo()
    with monkeypatch.context() as patch, pytest.raises(AgentCliError, match="goes on from there"):
        patch.setattr(reversal, "follow_times", _full_disk)
        session.undo()
    assert tree(session.root) != between

    if is_prompted:
        session.run()
    else:
        assert session.snapshots.planned_undo().commands == ["rm -r data; sed -i s/x/y/ src/*.py"]
        assert session.undo().run_id == stopped

    assert tree(session.root) == between
    assert len(session.snapshots.changed_runs()) == 1


@pytest.mark.parametrize(("mode", "note"), [("644", ""), ("755", "mode 644 → 755")])
async def test_edit_of_a_file_whose_mode_a_command_set_before_is_shown(
    session: Session, mode: str, note: str
) -> None:
    """The command's record hid it: `/diff` had no line of it, or, with the mode, no file."""
    path = session.root / "src/a1.py"
    before = path.read_text()
    path.chmod(0o644)
    session.run()
    await session.bash(f"chmod {mode} src/a1.py")
    await session.write("src/a1.py", "by a tool\n")

    shown = session.diff()
    taken = session.undo()

    assert [*shown] == ["src/a1.py"]
    assert (shown["src/a1.py"].added, shown["src/a1.py"].note) == (1, note)
    assert taken.restored == [path]
    assert path.read_text() == before


async def test_folder_with_files_of_the_user_stays_and_the_report_says_why(
    session: Session,
) -> None:
    session.run()
    await session.bash("mkdir new; touch new/x")
    (session.root / "new/mine").write_text("mine")

    taken = session.undo()

    folder = session.root / "new"
    assert taken.faults == [f"{folder}: the folder holds files that others made, so it stays"]
    assert [*folder.iterdir()] == [folder / "mine"]


def _full_disk(*_arguments: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


async def test_what_an_undo_cannot_put_back_stays_kept(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other files are back; this one can be, later, by its name."""
    session.run()
    await session.bash("rm -r data")
    give_back = reversal._give_back

    def all_but_one(kept: Path, name: str, folder: int) -> None:
        if name == "p7.bin":
            _full_disk()
        give_back(kept, name, folder)

    monkeypatch.setattr(reversal, "_give_back", all_but_one)

    taken = session.undo()

    lost = session.root / "data/p7.bin"
    assert taken.faults == [f"{lost}: {os.strerror(errno.ENOSPC)}; `agent-cli undo list` has it"]
    assert taken.restored
    assert lost not in taken.restored
    [version] = kept_versions(session.state, session.root)
    assert [version.path, version.bytes] == [lost, 700]
    restore(version, session.state)
    assert lost.read_bytes() == bytes(range(100)) * 7


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "src/a1.py").write_text("mine"),
        lambda root: (root / "src/a1.py").unlink(),
        lambda root: (root / "src/a1.py").chmod(0o600),
        lambda root: (root / "data").mkdir() or (root / "data/p1.bin").write_text("mine"),
    ],
    ids=["written", "deleted", "mode", "made again"],
)
async def test_undo_refuses_over_what_the_person_changed_since(
    session: Session, change: Callable[[Path], object]
) -> None:
    """Nothing is done, and the file is named."""
    session.run()
    await session.bash("sed -i s/x/y/ src/*.py; rm -r data")
    change(session.root)
    since = tree(session.root)

    with pytest.raises(AgentCliError, match=r"changed these files too: .*(a1\.py|p1\.bin)"):
        session.undo()

    assert tree(session.root) == since


async def test_undo_refuses_over_what_the_person_changed_between_two_commands(
    session: Session,
) -> None:
    session.run()
    await session.bash("echo one > src/a1.py")
    (session.root / "src/a1.py").write_text("mine")
    await session.bash("echo two >> src/a1.py")

    with pytest.raises(AgentCliError, match=r"a1\.py"):
        session.undo()


async def test_git_status_of_the_person_does_not_stand_against_the_undo(session: Session) -> None:
    """It writes the index anew, with the times of the files."""
    session.run()
    await session.bash("git reset -q --hard; rm -r data")
    git(session.root, "status")

    session.undo()

    assert (session.root / "src/a3.py").read_text().endswith("changed\n")


async def test_commits_that_the_person_built_on_objects_of_a_command_stay_whole(
    session: Session,
) -> None:
    session.run()
    await session.bash("git commit -qam y && git tag -f kept")
    made = git(session.root, "rev-parse", "kept")

    session.undo()

    assert git(session.root, "cat-file", "-t", made) == "commit"
    git(session.root, "fsck", "--strict")


async def test_diff_shows_what_commands_changed(session: Session) -> None:
    session.run()
    await session.bash("rm data/p1.bin; sed -i 1s/x/y/ src/a1.py; echo new > made; chmod 600 hard")

    found = session.diff()

    kinds = {path: (each.kind, each.added, each.removed) for path, each in found.items()}
    assert kinds == {
        "data/p1.bin": ("deleted", 0, 0),
        "src/a1.py": ("changed", 1, 1),
        "made": ("new", 1, 0),
        "hard": ("changed", 0, 0),
    }
    assert found["hard"].note == "mode 644 → 600"
    session.undo()
    assert session.diff() == {}


@pytest.mark.parametrize(
    "more",
    [
        "true",
        "sed -i 1s/x/z/ b.py",
        "mv b.py c.py",
        "mkdir d; mv b.py d/c.py; mv d e; echo >> e/c.py",
        "rm b.py",
    ],
)
async def test_diff_compares_a_moved_file_whose_name_is_used_again(
    session: Session, more: str
) -> None:
    """Wherever it is by now, or what was kept of it: the new file is not all of the difference."""
    session.run()
    await session.bash("mv src/a1.py b.py; printf 'new\n' > src/a1.py")
    await session.bash(more)

    found = session.diff()["src/a1.py"]

    assert (found.kind, found.added, found.removed) == ("changed", 1, 20)
    assert found.note == f"moved to {session.root / 'b.py'}"


async def test_diff_of_a_moved_file_is_that_of_a_deleted_and_a_new_one(session: Session) -> None:
    """So `git apply` takes both."""
    session.run()
    await session.bash("mv src/a1.py b.py")

    found = session.diff()

    kinds = {path: (each.kind, each.added, each.removed) for path, each in found.items()}
    assert kinds == {"src/a1.py": ("deleted", 0, 20), "b.py": ("new", 20, 0)}


async def test_undo_names_what_could_not_be_kept(session: Session) -> None:
    """A file above the limit is not copied; deleting it needs no copy."""
    (session.root / "large").write_bytes(os.urandom(1_500_000))
    (session.root / "other").write_bytes(os.urandom(1_500_000))
    session.run()
    await session.bash("echo 1 > large; rm other")

    taken = session.undo()

    assert taken.faults == [f"{session.root / 'large'}: it is larger than undo.max_mb"]
    assert [*taken.restored, *taken.deleted] == [session.root / "other"]
    assert (session.root / "other").stat().st_size == 1_500_000


async def test_lost_file_that_was_moved_is_named_as_it_is_called_after_the_undo(
    session: Session,
) -> None:
    """It was said to be restored, and a name that is gone was said not to be."""
    (session.root / "large").write_bytes(os.urandom(1_500_000))
    session.run()
    await session.bash("mv large moved; echo 1 > moved; echo 2 > made")
    await session.bash("head -c 1500000 /dev/urandom > made; echo 3 > made")

    taken = session.undo()

    assert taken.faults == [f"{session.root / 'large'}: it is larger than undo.max_mb"]
    assert taken.restored == []
    assert {*taken.deleted} == {session.root / "moved", session.root / "made"}
    assert (session.root / "large").read_text() == "1\n"
    assert not (session.root / "made").exists()


async def test_what_came_from_outside_the_workspace_is_never_deleted(
    session: Session, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    (outside / "folder").mkdir(parents=True)
    (outside / "folder/mine").write_text("mine")
    before = tree(session.root)
    session.run()
    await session.bash(f"mv {outside}/folder . && mv data {outside}/data && rm -r {outside}/data")

    session.undo()

    assert tree(session.root) == before
    assert [path.read_text() for path in session.state.rglob("mine")] == ["mine"]


async def yes() -> bool:
    return True


async def no() -> bool:
    return False


MANY = "for i in $(seq 10 34); do"
"""Begins a loop over 25 files that the command did not make."""


class Clock:
    """The monotonic clock, also that of the event loop, which a test can put forward."""

    def __init__(self) -> None:
        self.ahead_s = 0.0
        self._real = time.monotonic

    def __call__(self) -> float:
        return self._real() + self.ahead_s

    async def slowly(self) -> bool:
        """Answer yes after 25 seconds of this clock, when all timers due until then have run."""
        passed = asyncio.Event()
        self.ahead_s += 25
        asyncio.get_running_loop().call_later(0, passed.set)
        await passed.wait()
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock)
    return clock


@pytest.fixture
def many(session: Session) -> Session:
    for number in range(10, 35):
        (session.root / f"data/m{number}").write_text("x" * 1000)
    session.ask_beyond = (20, 0)
    session.run()
    return session


async def test_command_is_held_before_it_deletes_more_than_the_limit(many: Session) -> None:
    """Exactly the files up to the limit are gone; the rest stays, and /undo brings all back."""
    many.answer, before = no, tree(many.root)

    said = await many.bash(f"{MANY} rm data/m$i; done; mkdir new; mv data data2; touch /tmp; echo")

    assert [len(many.asked), many.asked[0].files, len(many.asked[0].paths)] == [1, 20, 20]
    assert many.asked[0].next == str(many.root / "data/m30")
    assert sorted(each.name for each in many.root.glob("data/m*")) == [
        f"m{n}" for n in range(30, 35)
    ]
    assert not (many.root / "new").exists()
    assert "Operation not permitted" in said
    assert "not allowed to go on, after it had deleted or overwritten 20 files" in said
    many.undo()
    assert tree(many.root) == before


async def test_allowed_command_is_asked_about_once_and_its_limit_stands_still(
    many: Session, clock: Clock
) -> None:
    """A person may think for longer than the command may run."""
    many.answer = clock.slowly

    said = await many.bash(f"{MANY} rm data/m$i; done; rm -r src; echo done", timeout=20)

    assert said.startswith("done")
    assert len(many.asked) == 1
    assert not [*many.root.glob("data/m*")]


@pytest.mark.parametrize(
    ("command", "beyond", "asked"),
    [
        (f"{MANY} echo > n$i; rm n$i; done", (20, 0), None),
        (f"{MANY} echo y > data/m$i; done", (20, 0), (20, "")),
        ("rm data/p7.bin data/p6.bin data/m12", (0, 9_000), (2, "")),
        ("echo > big", (20, 0), (0, "it is larger than undo.max_mb")),
        (f"{MANY} rm data/m$i; done; echo > big", (0, 0), None),
    ],
    ids=["own", "overwritten", "bytes", "too-large-to-keep", "off"],
)
async def test_what_counts_as_a_loss(
    many: Session, command: str, beyond: tuple[int, int], asked: tuple[int, str] | None
) -> None:
    (many.root / "big").write_bytes(b"x" * 1_200_000)
    many.ask_beyond, many.answer = beyond, yes

    await many.bash(command)

    found = [(loss.files, loss.why_unkept) for loss in many.asked]
    assert found == ([asked] if asked else [])


async def test_stopped_command_leaves_no_question(many: Session) -> None:
    """The person interrupts instead of answering."""
    asked = asyncio.Event()

    async def never() -> bool:
        asked.set()
        await asyncio.Event().wait()
        return True

    many.answer = never
    call = asyncio.create_task(many.tools.text("bash", command=f"{MANY} rm data/m$i; done"))
    await asyncio.wait_for(asked.wait(), 30)
    many.tools.cancel.cancel()
    with contextlib.suppress(Exception):
        await asyncio.wait_for(call, 30)

    assert len([*many.root.glob("data/m*")]) == 5


async def test_limit_of_a_job_stands_still_while_its_question_does(
    many: Session, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of a command that is waited for; it goes on after the answer."""
    jobs = many.workspace.shared.jobs
    monkeypatch.setattr(jobs, "timeout_s", 20)
    many.answer = clock.slowly
    waits = "until [ -e go ]; do sleep 0.01; done"

    await many.bash(f"{waits}; rm data/m*; echo > done; sleep 60", background=True)
    looking = asyncio.create_task(jobs.look_after())
    (many.root / "go").touch()
    await until((many.root / "done").exists)

    assert len(many.asked) == 1
    assert jobs.all[0].stopped_by == ""
    clock.ahead_s += 25
    await until(lambda: jobs.all[0].stopped_by == "limit" and not jobs.all[0].is_running)
    looking.cancel()


async def test_background_job_is_asked_about_too(many: Session) -> None:
    """Nobody waits for its call; the question comes all the same."""
    many.answer = no

    await many.bash("rm data/m*; sleep 60", background=True)  # one start, also on a busy machine

    # The program looks after its jobs; here the question may come after the call has ended.
    looking = asyncio.create_task(many.workspace.shared.jobs.look_after())
    await until(lambda: many.asked and len([*many.root.glob("data/m*")]) == 5)
    looking.cancel()
    await many.bash("kill %1")
    assert len([*many.root.glob("data/m*")]) == 5


async def test_undo_says_first_which_files_of_what_size_it_takes_back(session: Session) -> None:
    """A renamed file is one; what the run made counts as it is now; git's own files are one."""
    session.run()
    kept = sum(each.stat().st_size for each in (session.root / "data").iterdir())
    renamed = (session.root / "src/a1.py").stat().st_size
    await session.bash("rm -rf data")
    await session.bash("mv src/a1.py src/b1.py; chmod 600 src/deep/tool")
    await session.write("new.txt", "12345")

    planned = session.snapshots.planned_undo()

    assert planned.commands == ["rm -rf data", "mv src/a1.py src/b1.py; chmod 600 src/deep/tool"]
    assert (planned.edits, planned.files) == (1, 8 + 1 + 1 + 1)
    assert planned.bytes == kept + renamed + len("tool") + 5
    assert not (session.root / "data").exists()
    taken = session.undo()
    assert len(taken.restored) + len(taken.deleted) == planned.files + 1, "both names of the move"


async def test_undo_says_nothing_of_what_it_would_refuse(session: Session) -> None:
    """The refusal comes instead of the announcement, with and without commands in the run."""
    session.run()
    await session.write("new.txt", "1")
    assert session.snapshots.planned_undo().files == 1
    (session.root / "new.txt").write_text("of the person")
    with pytest.raises(AgentCliError, match="somebody changed these files too"):
        session.snapshots.planned_undo()
    session.run()
    await session.bash("rm -rf data")
    (session.root / "data").write_text("of the person")

    with pytest.raises(AgentCliError, match="somebody changed these files too"):
        session.snapshots.planned_undo()


async def test_a_store_that_cannot_be_written_is_told_once_a_session(
    session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    """Not twice for each command; the rest is in the log for who looks for it."""
    session.state.symlink_to("missing/folder")  # root may write anywhere else
    session.run()

    for command in ("rm -rf data", "rm hard", "touch new"):
        await session.bash(command)

    warned = [each for each in caplog.records if each.levelname == "WARNING"]
    assert [each.name for each in warned] == ["agent_cli_tools.snapshots.contents"], caplog.text
