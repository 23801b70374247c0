"""Kill -9 before each change that /undo makes, to the workspace or to the store."""

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent_cli.contracts.errors import AgentCliError
from agent_cli.undo.stopped_calls import why_missing
from agent_cli_tools import command_run
from tests.tools.test_undo_commands import Session
from tests.tools.undoing import fill, tree

pytestmark = [
    pytest.mark.skipif(why_missing() != "", reason=why_missing() or "-"),
    # Since Python 3.15 asyncio's executor still has its thread here; the child needs none.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]

_CHANGES = frozenset(
    {
        *("os.rename", "os.remove", "os.link", "os.symlink", "os.mkdir", "os.rmdir", "os.utime"),
        *("os.truncate", "os.chmod", "os.chown", "shutil.rmtree"),
    }
)
COMMAND = "rm data/p1.bin; echo x > src/a1.py; mv src/a2.py two; mkdir d; chmod 600 src/a4.py"


def killed_at(session: Session, number: int, *, in_part: bool = False) -> bool:
    """Undo in a process that is killed before its change *number*; return whether it was."""
    if (child := os.fork()) == 0:
        count = 0

        def hook(event: str, arguments: Sequence[object]) -> None:
            nonlocal count
            if event == "open" and isinstance(flags := arguments[2], int):
                is_change = bool(flags & (os.O_WRONLY | os.O_RDWR))
            else:
                is_change = event in _CHANGES
            count += is_change
            if count == number and is_change:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        try:
            session.undo(in_part=in_part)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


async def check_kill_at(number: int, base: Path) -> bool:
    """Check that the next start finishes what was killed; return whether it was killed at all."""
    root = base / "work"
    fill(root)
    session = Session(root, base / "state")
    try:
        session.run()
        await session.bash("echo first > untracked.txt")
        between = tree(root)
        session.run()
        await session.bash(COMMAND)
        after = tree(root)

        was_killed = killed_at(session, number)
        session.again()

        if tree(root) == after:  # nothing had begun
            session.undo()
        assert tree(root) == between, f"killed before change {number}"
        assert not [*session.state.rglob("plan.jsonl")]
        assert len(session.snapshots.changed_runs()) == 1
        session.undo()
        assert (root / "untracked.txt").read_text() == "new\n", f"killed before change {number}"
        kept = [each for each in session.state.glob("s-1/commands/*/*") if each.is_file()]
        assert {each.name for each in kept} <= {"log.jsonl", "lock"}
        with pytest.raises(AgentCliError, match="undone already"):
            session.undo()
    finally:
        session.close()
    return was_killed


async def check_kill_in_part_at(number: int, base: Path) -> bool:
    """Check as above that an undo that leaves a file is finished, and that its rest stays kept."""
    root = base / "work"
    fill(root)
    session = Session(root, base / "state")
    left = root / "src/a1.py"
    try:
        before = tree(root)
        session.run()
        await session.bash(COMMAND)
        changed = left.stat()
        left.write_text("mine")
        after = tree(root)

        was_killed = killed_at(session, number, in_part=True)
        session.again()

        if tree(root) == after:  # nothing had begun
            session.undo(in_part=True)
        assert left.read_text() == "mine"
        now = tree(root)
        assert [name for name in before if now.get(name) != before[name]] == ["src/a1.py"], number
        with pytest.raises(AgentCliError, match="but for files that changed since"):
            session.undo(in_part=True)
        left.write_text("x\n")
        os.utime(left, ns=(changed.st_atime_ns, changed.st_mtime_ns))
        session.undo()
        assert tree(root) == before, f"killed before change {number}"
        kept = [each for each in session.state.glob("s-1/commands/*/*") if each.is_file()]
        assert {each.name for each in kept} <= {"log.jsonl", "lock"}
    finally:
        session.close()
    return was_killed


@pytest.fixture(autouse=True)
def _without_sudo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_run, "may_gain_rights", lambda *_a, **_k: False)


async def test_undo_killed_at_any_moment_is_finished_by_the_next_start(tmp_path: Path) -> None:
    """Nothing is lost, nothing is kept for ever, and no other run is taken back."""
    was_killed = [await check_kill_at(number, tmp_path / str(number)) for number in (1, 12, 22, 24)]

    assert all(was_killed)


async def test_undo_in_part_killed_at_any_moment_is_finished_too(tmp_path: Path) -> None:
    """The file that stays is never touched, and what it held before stays kept."""
    numbers = (1, 5, 10, 15, 20)
    was_killed = [await check_kill_in_part_at(each, tmp_path / str(each)) for each in numbers]

    assert all(was_killed)


async def test_start_that_finishes_an_undo_says_so_and_names_what_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Files change as the program starts, and nobody else would say what could not go back."""
    root = tmp_path / "work"
    fill(root)
    before = tree(root)
    session = Session(root, tmp_path / "state")
    try:
        session.run()
        await session.bash(COMMAND)
        assert killed_at(session, 12)
        (root / "src/a1.py").write_text("mine")

        session.again()
    finally:
        session.close()

    [sentence] = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert "an undo that had stopped is finished now; not restored: " in sentence
    assert f"{root}/src/a1.py: it changed while the undo stood still, so it stays" in sentence
    assert (root / "src/a1.py").read_text() == "mine"
    assert [name for name, state in tree(root).items() if before[name] != state] == ["src/a1.py"]


@pytest.mark.slow
async def test_undo_in_part_killed_before_each_of_its_changes(tmp_path: Path) -> None:
    """As above, at all of them."""
    number = 1
    while await check_kill_in_part_at(number, tmp_path / str(number)):
        number += 1

    assert number > 20


@pytest.mark.slow
async def test_undo_killed_before_each_of_its_changes(tmp_path: Path) -> None:
    """As above, at all of them."""
    number = 1
    while await check_kill_at(number, tmp_path / str(number)):
        number += 1

    assert number > 24
