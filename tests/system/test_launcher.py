"""The launcher with real processes: whichever process is killed, nothing of a command is left."""

import errno
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from agent_cli.system import launching
from agent_cli.system.launching import REST_BYTES_MAX, KeeperLink, Launcher, Order, Watched
from tests.waiting import is_alive, open_descriptors, parent_of, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and a subreaper")

# One that stays in its group, and a daemon that leaves session and group; both ignore requests.
FAMILY = (
    "trap '' TERM HUP INT; echo $$ >>pids; setsid sh -c \"trap '' TERM; echo \\$\\$ >>pids;"
    ' sleep 71.5; :" & sh -c "echo \\$\\$ >>pids; sleep 71.5; :" & until [ $(wc -l <pids) = 3 ];'
    " do sleep 0.01; done; touch ready; wait"
)
SESSION = """
import os, sys, time
from agent_cli.system.launching import Launcher, Order
launcher = Launcher()
link, output = launcher.launch(
    Order(arguments=["/bin/bash", "-c", sys.argv[1]], cwd=os.getcwd(), environment=dict(os.environ))
)
link.take(link.socket.recv(4096))
time.sleep(600)
"""
LIMIT_S = 60.0


def is_child_of(parent: int, pid: int) -> bool:
    return parent_of(pid) == parent


def children_of(pid: int) -> set[int]:
    return set(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


@pytest.fixture
def launcher() -> Iterator[Launcher]:
    made = Launcher()
    yield made
    made.close()


def bash(script: str, cwd: Path, **more: object) -> Order:
    arguments = ["/bin/bash", "-c", script]
    return Order(arguments=arguments, cwd=str(cwd), environment=dict(os.environ), **more)  # type: ignore[arg-type]


def heard(link: KeeperLink, key: str) -> dict[str, object]:
    """Return the message with *key*, waiting for it."""
    while link.found(key) is None and not link.is_closed:
        link.socket.settimeout(LIMIT_S)
        link.take(link.socket.recv(4096))
    found: dict[str, object] = link.found(key) or {}
    return found


def output_of(launcher: Launcher, order: Order) -> tuple[str, KeeperLink]:
    link, reading = launcher.launch(order)
    with os.fdopen(reading, "rb") as output:
        return output.read().decode(), link


def test_launched_command_has_its_output_directory_session_and_exit_code(
    launcher: Launcher, tmp_path: Path
) -> None:
    output, link = output_of(
        launcher, bash("pwd; echo $A; cat; ps -o sid= $$ | tr -d ' '; echo $$; exit 7", tmp_path)
    )

    *lines, session, pid = output.splitlines()
    assert lines == [str(tmp_path), ""]
    assert session == pid, "a terminal's Ctrl-C does not reach it"
    assert heard(link, "status") == {"status": 7, "left": "", "over": True}
    assert link.end(LIMIT_S)


def test_end_of_all_is_reported_once_no_process_of_the_command_is_left(
    launcher: Launcher, tmp_path: Path
) -> None:
    """Another process in the command's group may still write files."""
    link, output = launcher.launch(bash("sleep 300 &", tmp_path))
    os.close(output)

    assert heard(link, "status") == {"status": 0, "left": ""}
    assert link.end(LIMIT_S)
    assert heard(link, "over") == {"over": True}


@pytest.mark.parametrize(
    ("script", "status"), [("kill -TERM $$", 143), ("kill -9 0", 137), ("exit 200", 200)]
)
def test_death_by_signal_is_reported_as_in_a_shell(
    launcher: Launcher, tmp_path: Path, script: str, status: int
) -> None:
    _, link = output_of(launcher, bash(script, tmp_path))

    assert heard(link, "status")["status"] == status
    link.end(LIMIT_S)


def test_command_that_cannot_start_is_reported(launcher: Launcher, tmp_path: Path) -> None:
    _, link = output_of(launcher, Order(arguments=["/nowhere"], cwd="/", environment={}))
    assert "No such file" in str(heard(link, "failed")["failed"])
    link.end(LIMIT_S)
    _, link = output_of(launcher, bash("true", tmp_path / "none"))
    assert "none" in str(heard(link, "failed")["failed"])
    link.end(LIMIT_S)
    with pytest.raises(ValueError, match="null byte"):
        launcher.launch(bash("a\0b", tmp_path))


def test_bug_before_a_command_starts_is_reported(launcher: Launcher, tmp_path: Path) -> None:
    """Without a word, the session would read only that the keeper has ended."""
    no_watch = Watched(module="json", folder=str(tmp_path), roots=[], copy_bytes_max=0, header={})
    _, link = output_of(launcher, replace(bash("true", tmp_path), watched=no_watch))

    assert "CommandWatch" in str(heard(link, "failed")["failed"])
    link.end(LIMIT_S)


def test_files_are_opened_under_the_given_descriptor_numbers(
    launcher: Launcher, tmp_path: Path
) -> None:
    """The numbers may be those of descriptors in transit."""
    files: list[tuple[int, str]] = []
    for number in (4, 5, 6, 7, 8, 9):
        (tmp_path / str(number)).write_text(f"{number} ")
        files.append((number, str(tmp_path / str(number))))
    script = "cat <&4 <&5 <&6; cat <&7; cat <&8; cat <&9; ls /proc/self/fd | wc -l"

    output, link = output_of(launcher, bash(script, tmp_path, files=files))
    link.end(LIMIT_S)

    assert output.split()[:4] == ["6", "7", "8", "9"]


def test_program_reads_the_rest_of_its_arguments_once_they_are_known(
    launcher: Launcher, tmp_path: Path
) -> None:
    """More of them than a pipe holds at first; and it runs already, waiting for them."""
    words = b"".join(b"word %d\0" % number for number in range(20_000))
    order = bash("touch ready; cat <&7 >given", tmp_path, nested=True, rest=7)

    link, reading = launcher.launch(order)
    wait_until((tmp_path / "ready").exists, "the start of the program")
    is_sent = link.complete(words)
    ended = heard(link, "status")
    link.end(LIMIT_S)
    os.close(reading)

    assert is_sent
    assert ended["status"] == 0
    assert (tmp_path / "given").read_bytes() == words


def test_arguments_are_sent_as_one_piece_before_the_program_reads_any(
    launcher: Launcher, tmp_path: Path
) -> None:
    """A kill of the session in between would leave it with those of which it has read."""
    order = bash("until [ -e go ]; do sleep 0.01; done; wc -c <&7", tmp_path, nested=True, rest=7)
    words = b"word\0" * 200_000

    link, reading = launcher.launch(order)
    assert link.complete(words)  # returns, though nothing is read yet
    (tmp_path / "go").touch()
    heard(link, "status")
    link.end(LIMIT_S)
    with os.fdopen(reading, "rb") as output:
        assert int(output.read()) == len(words)


def test_arguments_that_no_pipe_holds_are_not_sent(launcher: Launcher, tmp_path: Path) -> None:
    order = bash("cat <&7; touch went-on", tmp_path, nested=True, rest=7)

    link, reading = launcher.launch(order)
    is_sent = link.complete(b"word\0" * (REST_BYTES_MAX // 5 + 1))
    link.end(LIMIT_S)
    os.close(reading)

    assert not is_sent
    assert not (tmp_path / "went-on").exists()


def test_program_that_waits_for_arguments_is_killed_before_it_finds_none(
    launcher: Launcher, tmp_path: Path
) -> None:
    script = "touch ready; cat <&5; touch went-on"
    order = bash(script, tmp_path, nested=True, rest=5)

    link, reading = launcher.launch(order)
    wait_until((tmp_path / "ready").exists, "the start of the program")
    is_over = link.end(LIMIT_S)
    os.close(reading)

    assert is_over
    assert link.rest is not None
    assert link.rest.closed
    assert not (tmp_path / "went-on").exists()


def test_arguments_of_a_program_that_cannot_start_are_dropped(
    launcher: Launcher, tmp_path: Path
) -> None:
    order = replace(bash("true", tmp_path, nested=True, rest=5), arguments=["/nowhere"])

    link, reading = launcher.launch(order)
    failure = heard(link, "failed")
    link.complete(b"word\0" * 20_000)
    link.end(LIMIT_S)
    os.close(reading)

    assert "No such file" in str(failure["failed"])


@pytest.mark.parametrize("room", range(6))
def test_start_without_room_for_its_descriptors_leaves_none_open(
    launcher: Launcher, tmp_path: Path, room: int
) -> None:
    """Else each try would take some of those that other parts of this program gave back."""
    _, link = output_of(launcher, bash("true", tmp_path))
    link.end(LIMIT_S)
    before = open_descriptors()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, limits[1]))
    taken: list[int] = []
    try:
        with suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        for each in taken[len(taken) - room :]:
            os.close(each)
        del taken[len(taken) - room :]

        with pytest.raises(OSError, match=os.strerror(errno.EMFILE)):
            launcher.launch(bash("touch ran", tmp_path, nested=True, rest=5))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for each in taken:
            os.close(each)

    assert open_descriptors() <= before
    assert not (tmp_path / "ran").exists()


def test_no_descriptor_of_ours_reaches_a_command(launcher: Launcher, tmp_path: Path) -> None:
    output, link = output_of(launcher, bash("ls -l /proc/$$/fd; true", tmp_path))
    link.end(LIMIT_S)

    assert [line.split()[-3] for line in output.splitlines()[1:]] == ["0", "1", "2"]


@pytest.mark.parametrize("victim", ["session", "launcher", "keeper", "session and launcher"])
def test_kill_of_session_launcher_or_keeper_ends_every_process(tmp_path: Path, victim: str) -> None:
    """S1-42, threat 15: after SIGKILL no process can clean up itself."""
    with subprocess.Popen(
        [sys.executable, "-c", SESSION, FAMILY], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as session:
        wait_until((tmp_path / "ready").exists)
        pids = [int(line) for line in (tmp_path / "pids").read_text().split()]
        assert all(map(is_alive, pids))
        keeper = parent_of(pids[0])
        chain = {"session": session.pid, "keeper": keeper, "launcher": parent_of(keeper)}
        wait_until(lambda: children_of(chain["launcher"]) - {keeper})
        [spare] = children_of(chain["launcher"]) - {keeper}

        for each in victim.split(" and "):
            os.kill(chain[each], signal.SIGKILL)
        if victim == "launcher":
            # Keepers run without it, and end with the session.
            assert all(map(is_alive, pids))
            session.kill()
        wait_until(lambda: not any(map(is_alive, pids)))
        session.kill()

    wait_until(lambda: not any(map(is_alive, (*chain.values(), spare))))


@pytest.mark.parametrize("victim", ["launcher", "spare keeper"])
def test_a_killed_launcher_is_replaced(launcher: Launcher, tmp_path: Path, victim: str) -> None:
    _, link = output_of(launcher, bash("true", tmp_path))
    keeper = parent_of(int(str(heard(link, "pid")["pid"])))
    pid = parent_of(keeper)
    if victim == "spare keeper":
        wait_until(lambda: children_of(pid) - {keeper})
        [pid] = children_of(pid) - {keeper}
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(pid))
    assert is_alive(keeper)
    link.end(LIMIT_S)

    output = ""
    for _ in range(3):
        output, link = output_of(launcher, bash("echo again", tmp_path))
        link.end(LIMIT_S)

    assert output == "again\n"


def stopped_spare(launcher: Launcher, folder: Path) -> tuple[int, int]:
    """Return the process ids of *launcher* and of its spare keeper, which is stopped."""
    _, link = output_of(launcher, bash("true", folder))
    keeper = parent_of(int(str(heard(link, "pid")["pid"])))
    pid = parent_of(keeper)
    wait_until(lambda: children_of(pid) - {keeper})
    [spare] = children_of(pid) - {keeper}
    link.end(LIMIT_S)
    os.kill(spare, signal.SIGSTOP)
    wait_until(lambda: Path(f"/proc/{spare}/stat").read_text().rpartition(")")[2][:2] == " T")
    return pid, spare


def test_spare_keeper_takes_no_order_without_its_launcher(
    launcher: Launcher, tmp_path: Path
) -> None:
    """Nobody would end what its command started, if that keeper was killed, too."""
    pid, spare = stopped_spare(launcher, tmp_path)
    link, reading = launcher.launch(bash("touch ran", tmp_path))
    os.close(reading)

    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(pid))
    os.kill(spare, signal.SIGCONT)

    assert heard(link, "pid") == {}
    wait_until(lambda: not is_alive(spare))
    assert not (tmp_path / "ran").exists()
    assert output_of(launcher, bash("echo again", tmp_path))[0] == "again\n"


def test_order_right_after_the_launchers_death_is_taken_by_another_one(
    launcher: Launcher, tmp_path: Path
) -> None:
    """Its spare keeper, which has not seen that yet, would drop it: the command failed."""
    pid, spare = stopped_spare(launcher, tmp_path)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(pid))

    link, reading = launcher.launch(bash("echo again", tmp_path))
    os.kill(spare, signal.SIGCONT)

    with os.fdopen(reading, "rb") as output:
        assert output.read() == b"again\n"
    link.end(LIMIT_S)
    wait_until(lambda: not is_alive(spare))


def test_sandboxed_commands_start_one_behind_the_other_without_a_pause(
    launcher: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next keeper is made when the last one is busy, but at once for the next order."""
    program = "from agent_cli.system import launcher\nlauncher._START_MS = 600_000\nlauncher.main()"
    ours, theirs = socket.socketpair()
    with theirs:
        words = [sys.executable, "-c", program, str(theirs.fileno())]
        process = subprocess.Popen(words, pass_fds=[theirs.fileno()])
    monkeypatch.setattr(launcher, "_running", (ours, process))

    found = [output_of(launcher, bash(f"echo {at}", tmp_path, nested=True)) for at in range(3)]

    assert [text for text, _ in found] == ["0\n", "1\n", "2\n"]
    assert [link.end(LIMIT_S) for _, link in found] == [True] * 3
    ours.close()
    assert process.wait(LIMIT_S) == 0


@pytest.mark.parametrize("nested", [False, True])
def test_output_of_a_command_ends_with_the_command(
    launcher: Launcher, tmp_path: Path, *, nested: bool
) -> None:
    """Readers wait for its end; the keeper, which stays, must not hold it open."""
    output, link = output_of(launcher, bash("echo done", tmp_path, nested=nested))

    assert output == "done\n"
    assert not link.is_closed
    link.end(LIMIT_S)


@pytest.mark.slow
def test_repeated_launches_never_hang(launcher: Launcher) -> None:
    """S1-42: a lost wake-up would be rare, so there are many starts."""
    for _ in range(5_000):
        _, link = output_of(launcher, Order(arguments=["/bin/true"], cwd="/", environment={}))
        assert heard(link, "status")["status"] == 0
        assert link.end(LIMIT_S)


def test_spared_background_process_of_a_command_runs_on(launcher: Launcher, tmp_path: Path) -> None:
    """Others run on when one of them ends, and when the launcher ends."""
    left: list[int] = []
    for script in ("sleep 72.5 & echo $!", "setsid sleep 72.5 & echo $!"):
        link, reading = launcher.launch(bash(f"{{ {script}; }} 2>&1 >pid", tmp_path, spares=True))
        os.close(reading)
        assert heard(link, "status") == {"status": 0, "left": ""}
        pid = int((tmp_path / "pid").read_text())
        ours = parent_of(parent_of(pid))
        link.spare()
        wait_until(partial(is_child_of, ours, pid))
        left.append(pid)

    first, second = left
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: not is_alive(first))
    output_of(launcher, bash("true", tmp_path))
    launcher.close()
    wait_until(lambda: not is_alive(ours))

    assert is_alive(second)
    os.kill(second, signal.SIGKILL)
    wait_until(lambda: not is_alive(second))


def test_closing_the_launcher_waits_for_no_process_and_reaps_it(
    launcher: Launcher, tmp_path: Path
) -> None:
    """The end of a run must not wait for a process that is only to end as well."""
    output, link = output_of(launcher, bash("echo $PPID", tmp_path))
    ours = parent_of(int(output))
    link.end(LIMIT_S)
    os.kill(ours, signal.SIGSTOP)

    launcher.close()

    assert is_alive(ours)
    os.kill(ours, signal.SIGCONT)
    wait_until(lambda: not Path(f"/proc/{ours}").exists())


def test_unspared_background_process_of_a_command_is_killed(
    launcher: Launcher, tmp_path: Path
) -> None:
    """The session was killed, or the user stopped the command."""
    link, reading = launcher.launch(bash("setsid sleep 72.5 & echo $! >pid", tmp_path, spares=True))
    os.close(reading)
    heard(link, "status")
    left = int((tmp_path / "pid").read_text())
    assert is_alive(left)

    assert link.end(LIMIT_S)

    wait_until(lambda: not is_alive(left))


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ('{"asks": {}}|{"pid": 5}', "5"),
        ('{"asks": {}}|{"failed": "no such file"}', "no such file"),
        ('{"asks": {}}', "the program that starts it was killed"),
    ],
)
async def test_question_of_a_command_may_overtake_the_report_of_its_start(
    messages: str, expected: str
) -> None:
    """Another thread of the keeper asks; the start once counted as failed, and the command died."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    link = KeeperLink(ours)
    with ours, theirs:
        for message in messages.split("|"):
            theirs.sendall(f"{message}\n".encode())
            link.receive_now()
        theirs.close()

        try:
            found = str(await link.pid())
        except OSError as error:
            found = str(error)

    assert found == expected
    assert link.found("asks") == {"asks": {}}


FEW_FILES = """
import os, resource, sys
from agent_cli.system.launching import Launcher, Order
resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))
launcher = Launcher()
for nested in (False, True):
    order = Order(
        arguments=["/bin/bash", "-c", "cat <&5"],
        cwd="/",
        environment={},
        files=[(5, sys.argv[1])],
        nested=nested,
    )
    link, output = launcher.launch(order)
    print(os.read(output, 100).decode() or link.socket.recv(4096))
    link.end(60)
launcher.close()
"""


def test_commands_start_with_few_open_files(tmp_path: Path) -> None:
    """A fixed high descriptor ended the keeper under `ulimit -n 48`, with no word about it."""
    (tmp_path / "file").write_text("read")

    ran = subprocess.run(
        [sys.executable, "-c", FEW_FILES, str(tmp_path / "file")],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )

    assert (ran.stdout, ran.stderr) == ("read\nread\n", "")


def test_launcher_that_cannot_start_leaves_no_descriptor_open(
    launcher: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where only its socket finds free ones, and its process none; whoever keeps the error."""

    def fail(_control: socket.socket) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(launching, "_process", fail)
    before = open_descriptors()

    with pytest.raises(OSError, match="Too many open files") as raised:
        launcher.launch(bash("true", tmp_path))

    assert raised.value.errno == errno.EMFILE
    assert open_descriptors() == before
