"""A fork looks like a process that was just started."""

import inspect
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from agent_cli.system import launching
from tests.forked import AS_FORK, _server, importer_pids, server_pids, start
from tests.launcher_server import launcher_server
from tests.rehearsal import rehearse
from tests.repl.terminal import Terminal
from tests.waiting import parent_of, wait_until

SCRIPT = """
import json, os, random, select, signal, sys
print(json.dumps({
    "arguments": sys.argv[1:],
    "directory": os.getcwd(),
    "environment": dict(os.environ),
    "descriptors": sorted(int(name) for name in os.listdir("/dev/fd")),
    "random": random.random(),
    "wakes": signal.set_wakeup_fd(-1),
    "stdin": "" if os.isatty(0) else sys.stdin.read(),
}), flush=True)
match sys.argv[1]:
    case "wait":
        print("terminals:", [os.isatty(number) for number in range(3)], flush=True)
        while True:  # a signal just before the call only ends the next one
            select.select([], [], [], 1)
    case "fail":
        sys.exit("so it ends")
    case "break":
        raise ValueError("a bug")
sys.exit(7)
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return str(path)


@pytest.mark.parametrize("fresh", [False, True])
def test_started_program_gets_only_the_given_arguments_and_environment(
    script: str, tmp_path: Path, fresh: bool
) -> None:
    """A fork and a new interpreter report the same about themselves."""
    environment = {"HOME": "/nowhere", "A": "ä"}
    with start(script, "x y", environment=environment | keep(), fresh=fresh) as program:
        stdout, stderr = program.communicate("read me")
        told = json.loads(stdout)

    assert (program.wait(), stderr) == (7, "")
    assert told["arguments"] == ["x y"]
    assert told["directory"] == str(tmp_path)
    assert told["environment"].items() >= environment.items()
    assert "XDG_CONFIG_HOME" not in told["environment"]
    assert told["descriptors"] == [0, 1, 2, 3]  # the last is the directory being listed
    assert told["wakes"] == -1
    assert told["stdin"] == "read me"


def test_rehearsal_before_the_forks_leaves_nothing_of_itself() -> None:
    """The forks would inherit it; and a rehearsal that fails would be a slow suite, unnoticed."""

    def state() -> tuple[object, ...]:
        handlers = [signal.getsignal(number) for number in signal.valid_signals()]
        streams = (sys.stdin, sys.stdout, sys.stderr)
        return handlers, streams, dict(os.environ), Path.cwd()

    before, threads = state(), threading.enumerate()

    rehearse()

    assert state() == before
    assert {*threading.enumerate()} <= {*threads}  # a test's may end meanwhile


def keep() -> dict[str, str]:
    """Return the interpreter's start variables unchanged, as a change would prevent the fork."""
    names = ("LANG", "LC_ALL", *(name for name in os.environ if name.startswith("PYTHON")))
    return {name: os.environ[name] for name in names if name in os.environ}


def test_script_runs_in_an_interpreter_when_the_server_has_ended(script: str) -> None:
    """Whoever waits for the script reads from it what is wrong."""
    command = [sys.executable, *("-I", "-S", AS_FORK, "nobody listens here", script, "x")]
    run = subprocess.run(command, capture_output=True, input=b"read me", timeout=60, check=False)

    told = json.loads(run.stdout)
    assert (told["arguments"], told["stdin"], run.returncode) == (["x"], "read me", 7)


def test_two_forks_draw_different_random_numbers(script: str) -> None:
    """Random values differ, although both come from one process."""
    drawn: set[float] = set()
    for _ in range(2):
        with start(script, "x", environment=os.environ) as program:
            drawn.add(json.loads(program.communicate()[0])["random"])

    assert len(drawn) == 2


@pytest.mark.parametrize(
    ("how", "said"), [("fail", "so it ends\n"), ("break", "ValueError: a bug\n")]
)
def test_failure_in_a_fork_ends_as_in_an_interpreter(script: str, how: str, said: str) -> None:
    with start(script, how, environment=os.environ) as program:
        _, stderr = program.communicate()

    assert (program.wait(), stderr.endswith(said)) == (1, True)


def test_fork_killed_by_a_signal_reports_that_signal(script: str) -> None:
    with start(script, "wait", environment=os.environ) as program:
        program.stdin.close()
        program.stdout.readline()
        program.send_signal(signal.SIGTERM)

        assert program.wait() == -signal.SIGTERM


def test_forked_program_has_its_own_controlling_terminal(script: str) -> None:
    """Ctrl-C comes from the terminal, so it must be the controlling one."""
    with Terminal(script, "wait") as terminal:
        terminal.until("terminals: [True, True, True]")
        terminal.send("\x03")

        terminal.until("KeyboardInterrupt")
        assert terminal.exit_code() == -signal.SIGINT


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads /proc")
def test_workers_of_one_run_share_the_process_that_imports(script: str) -> None:
    """Importing takes five seconds of a processor, which each worker would take."""
    with start(script, "x", environment=os.environ) as program:
        program.communicate()
    [server] = server_pids()

    another, orders, listener = inspect.unwrap(_server)()

    with orders, listener:
        assert another != server
        assert parent_of(another) == parent_of(server)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads /proc")
def test_servers_stay_in_the_folder_of_no_test(script: str) -> None:
    """That may be another test's next, which looks for processes in it."""
    with start(script, "x", environment=os.environ) as program:
        program.communicate()

    servers = {*server_pids(), *importer_pids(), launcher_server()[0]}
    assert {str(Path(f"/proc/{each}/cwd").readlink()) for each in servers} == {"/"}


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads /proc")
def test_forked_launcher_looks_like_a_new_one() -> None:
    """Only what it has imported differs; it ends with its control."""
    (ours, its), (our_second, its_second) = socket.socketpair(), socket.socketpair()
    started = inspect.unwrap(launching._process)(its)
    with started, ours, its, our_second, its_second:
        forked = launching._process(its_second)

        assert forked.poll() is None
        for pid in (started.pid, forked.pid):  # a child is the first keeper
            wait_until(partial(has_children, pid))
        # A launcher has its end of the keeper's socket for a moment longer.
        wait_until(lambda: facts_of(forked.pid) == facts_of(started.pid), "the same facts")
        assert facts_of(forked.pid) == facts_of(started.pid)

    assert forked.wait(timeout=60) == 0
    assert forked.poll() == 0


def test_launchers_are_forked_after_a_program_was_killed_in_its_request() -> None:
    """One that asks for nothing and one that hears no answer end only themselves."""
    address = launcher_server()[1]
    ours, its = socket.socketpair()
    with ours, its:
        for parts in ([], [its.fileno()]):
            with socket.socket(socket.AF_UNIX) as killed:
                killed.connect(address)
                if parts:
                    socket.send_fds(killed, [b"+"], parts)

        forked = launching._process(its)

    assert forked.wait(timeout=60) == 0


def has_children(pid: int) -> bool:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text() != ""


def facts_of(pid: int) -> dict[str, object]:
    """Return what a program can see of its own process, but for its numbers."""
    process = Path(f"/proc/{pid}")
    status = (process / "status").read_text()
    return {
        "directory": (process / "cwd").readlink(),
        "environment": (process / "environ").read_bytes(),
        "leads": os.getsid(pid) == os.getpgid(pid) == pid,
        "signals": re.findall(r"Sig(?:Blk|Ign|Cgt):.*", status),
        "open": sorted(
            str(path.readlink()).partition(":")[0] for path in (process / "fd").iterdir()
        ),
    }
