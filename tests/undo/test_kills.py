"""Kills with SIGKILL: of the undo at each step, and of what runs and watches a command."""

import errno
import os
import random
import shutil
import signal
import stat
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from agent_cli.system.launching import KeeperLink, Launcher, Order, Watched
from agent_cli.undo import reversal
from agent_cli.undo.logs import CommandLog, drop_kept, is_running, read_log
from agent_cli.undo.reversal import Step, carry_out, has_plan, write_plan
from agent_cli.undo.stopped_calls import why_missing
from tests.tools.undoing import fill, tree
from tests.waiting import parent_of, wait_until

pytestmark = [
    pytest.mark.skipif(why_missing() != "", reason=why_missing() or "-"),
    # Of Python 3.12 and later, if a thread of an earlier test has not ended; the child needs none.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]

COMMAND = (
    "mkdir t; mv data t/; rm t/data/p1.bin; echo x > src/a1.py; mv src src2; mv t/data src;"
    " echo new > src/p2.bin; rm hard; chmod 700 src2; mkdir src2/made; echo x > src2/made/file"
)
LIMIT_S = 60.0


@pytest.fixture
def launcher() -> Iterator[Launcher]:
    made = Launcher()
    yield made
    made.close()


def begin(
    launcher: Launcher, root: Path, log: Path, command: str, ask_beyond: int = 0
) -> KeeperLink:
    """Start *command* below a keeper that writes *log*."""
    log.mkdir()
    watched = Watched(
        module="agent_cli.undo.watch",
        folder=str(log),
        roots=[str(root)],
        copy_bytes_max=1_000_000,
        header={"command": command},
        ask_beyond_files=ask_beyond,
    )
    environment = dict(os.environ)
    order = Order(
        arguments=["/bin/bash", "-c", command],
        cwd=str(root),
        environment=environment,
        watched=watched,
    )
    link, output = launcher.launch(order)
    os.close(output)
    link.socket.settimeout(LIMIT_S)
    return link


def found(link: KeeperLink, key: str) -> None:
    while link.found(key) is None and not link.is_closed:
        link.take(link.socket.recv(4096))


def logged(folder: Path) -> CommandLog:
    log = read_log(folder)
    assert log
    return log


def is_gone(path: Path) -> bool:
    return not path.exists()


def is_over(log: Path) -> bool:
    return not is_running(log)


def keeper_of(link: KeeperLink) -> int:
    found(link, "pid")  # a question may come before it
    return parent_of(link.found("pid")["pid"])


def plan(folder: Path, log: CommandLog) -> None:
    write_plan(folder, [Step(str(log.folder), each) for each in reversed(log.records)], {})


def killed_at(folder: Path, number: int, *, after: bool) -> bool:
    """Carry out the plan in a process that is killed at step *number*; return whether it was."""
    if (child := os.fork()) == 0:
        undo, count = reversal._undo, 0

        def counted(step: Step) -> None:
            nonlocal count
            count += 1
            if count == number and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            undo(step)
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)

        reversal._undo = counted
        try:
            carry_out(folder)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_undo_killed_at_any_step_is_finished_by_the_next(
    launcher: Launcher, tmp_path: Path, after: bool
) -> None:
    """Whoever finds the plan carries it out, and no step is begun again once another was."""
    root = tmp_path / "work"
    fill(root)
    before = tree(root)
    number, was_killed = 0, True
    while was_killed:
        number += 1
        base = tmp_path / str(number)
        base.mkdir()
        link = begin(launcher, root, base / "log", COMMAND)
        found(link, "over")
        link.end(LIMIT_S)
        log = logged(base / "log")
        plan(base / "plan", log)

        was_killed = killed_at(base / "plan", number, after=after)
        outcome = carry_out(base / "plan")
        drop_kept(log.folder)

        assert outcome.faults == []
        assert tree(root) == before, f"killed at step {number}"
    assert number > 15


def test_what_failed_before_a_kill_stays_kept_after_it(
    launcher: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever finishes the undo did not see the fault: the progress tells it."""
    root = tmp_path / "work"
    fill(root)
    link = begin(launcher, root, tmp_path / "log", "rm data/p1.bin data/p2.bin data/p3.bin")
    found(link, "over")
    link.end(LIMIT_S)
    log = logged(tmp_path / "log")
    plan(tmp_path / "plan", log)
    give_back = reversal._give_back

    def all_but_the_last(kept: Path, name: str, folder: int) -> None:
        if name == "p3.bin":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        give_back(kept, name, folder)

    with monkeypatch.context() as patch:
        patch.setattr(reversal, "_give_back", all_but_the_last)
        assert killed_at(tmp_path / "plan", 2, after=True)
    [fault] = carry_out(tmp_path / "plan").faults
    again = carry_out(tmp_path / "plan")
    drop_kept(log.folder, again.kept)

    assert again.faults == [fault]
    assert fault == f"{root}/data/p3.bin: it could not be put back; `agent-cli undo list` has it"
    assert [each.stat().st_size for each in again.kept] == [300]
    assert (root / "data/p1.bin").exists()


@pytest.mark.parametrize("again", [False, True], ids=["once", "twice"])
def test_file_that_changed_while_an_undo_stood_still_stays(
    launcher: Launcher, tmp_path: Path, again: bool
) -> None:
    """Between a kill and the next start, a person's work is theirs as before any undo.

    Also when that next start is killed before it comes to the file.
    """
    root = tmp_path / "work"
    fill(root)
    before = tree(root)
    command = "rm data/p1.bin; echo x > src/a1.py; echo new > made; mv src/a2.py two; rm two hard"
    link = begin(launcher, root, tmp_path / "log", command)
    found(link, "over")
    link.end(LIMIT_S)
    log = logged(tmp_path / "log")
    plan(tmp_path / "plan", log)
    assert killed_at(tmp_path / "plan", 1, after=True)
    theirs = [root / name for name in ("data/p1.bin", "src/a1.py", "made")]
    for each in theirs:
        each.write_text("mine")
    if again:
        assert killed_at(tmp_path / "plan", 1, after=True)

    outcome = carry_out(tmp_path / "plan")
    drop_kept(log.folder, outcome.kept)

    assert [each.read_text() for each in theirs] == ["mine"] * 3
    assert sorted(fault.partition(": it changed while")[0] for fault in outcome.faults) == sorted(
        map(str, theirs)
    )
    now = tree(root)
    assert {name for name in before if now[name] != before[name]} == {"data/p1.bin", "src/a1.py"}
    assert len(outcome.kept) == 2


@pytest.mark.parametrize("failing", ["the plan", "its folder"])
def test_plan_that_may_not_be_on_the_disk_is_no_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    """A power failure during its steps would leave half of an undo, and nothing to go on with."""

    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode) == (failing == "its folder"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fsync)

    with pytest.raises(OSError, match="No space left"):
        write_plan(tmp_path / "plan", [], {"run": "r"})

    assert not has_plan(tmp_path / "plan")


@pytest.mark.parametrize("victim", ["session", "keeper"])
def test_what_a_killed_command_did_until_then_is_undone(
    launcher: Launcher, tmp_path: Path, victim: str
) -> None:
    """The log is always ahead of the change; without an end of the log nobody is accused.

    A dead keeper leaves processes in the midst of a call: until the launcher has killed them, the
    command counts as running.
    """
    chance = random.Random(7)
    fill(tmp_path / "work")
    for number in range(6):
        base = tmp_path / str(number)
        base.mkdir()
        killed_command(launcher, tmp_path / "work", base, victim, chance)


@pytest.mark.slow
def test_two_hundred_kills_lose_nothing(launcher: Launcher, tmp_path: Path) -> None:
    """60 commands whose undo is killed twice more, and 40 questions; at any moment."""
    chance = random.Random(35)
    fill(tmp_path / "work")
    for number in range(100):
        base = tmp_path / str(number)
        victim = chance.choice(["session", "keeper"])
        base.mkdir()
        if number % 5 < 3:
            killed_command(launcher, tmp_path / "work", base, victim, chance, undos=2)
        else:
            killed_question(launcher, base, victim, chance.randrange(1, 15))
        shutil.rmtree(base)


def killed_command(
    launcher: Launcher, root: Path, base: Path, victim: str, chance: random.Random, undos: int = 0
) -> None:
    """Kill a command at any moment, and its undo *undos* times; all is as before in the end."""
    before = tree(root)
    command = "while :; do for f in src/*.py; do echo x > $f; mv $f $f.new; rm $f.new; done; done"
    link = begin(launcher, root, base / "log", f"rm data/p1.bin; {command}")
    found(link, "pid")
    wait_until(partial(is_gone, root / "data/p1.bin"))
    time.sleep(chance.random() / 50)  # any moment will do
    if victim == "keeper":
        os.kill(keeper_of(link), signal.SIGKILL)
    link.end(LIMIT_S)
    wait_until(partial(is_over, base / "log"))

    log = logged(base / "log")
    plan(base / "plan", log)
    for _ in range(undos):
        if (child := os.fork()) == 0:
            try:
                carry_out(base / "plan")
            finally:
                os._exit(0)
        time.sleep(chance.random() / 100)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    outcome = carry_out(base / "plan")
    drop_kept(log.folder)

    assert (log.ended_ns > 0) == (victim == "session")
    assert outcome.faults == []
    assert tree(root) == before


@pytest.mark.parametrize("victim", ["session", "keeper"])
def test_kill_while_a_question_stands_is_a_no(
    launcher: Launcher, tmp_path: Path, victim: str
) -> None:
    """The call that stands still never happens, and what was done before it is undone."""
    killed_question(launcher, tmp_path, victim, 3)


def killed_question(launcher: Launcher, base: Path, victim: str, ask_beyond: int) -> None:
    root = base / "work"
    fill(root)
    before = tree(root)
    link = begin(launcher, root, base / "log", "rm -r src; rm -r data", ask_beyond)
    found(link, "asks")
    next_one = Path(link.found("asks")["asks"]["next"])
    if victim == "keeper":
        os.kill(keeper_of(link), signal.SIGKILL)
    link.end(LIMIT_S)
    wait_until(partial(is_over, base / "log"))

    assert next_one.exists()
    log = logged(base / "log")
    plan(base / "plan", log)
    outcome = carry_out(base / "plan")
    drop_kept(log.folder)
    assert outcome.faults == []
    assert tree(root) == before


def test_command_below_another_supervisor_runs_unwatched_and_says_so(
    launcher: Launcher, tmp_path: Path
) -> None:
    """The kernel has one listener for a process and those above it (EBUSY)."""
    outer = begin(
        launcher,
        tmp_path,
        tmp_path / "outer",
        "exec python3 -c 'import sys; sys.path[:0] = sys.argv[1:]\n"
        "from agent_cli.undo import stopped_calls\n"
        "try: stopped_calls.install()\n"
        'except OSError as error: open("said", "w").write(str(error.errno))\' '
        + str(Path(reversal.__file__).parents[2]),
    )
    found(outer, "over")

    assert (tmp_path / "said").read_text() == "16"
