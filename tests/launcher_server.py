"""Start launchers without import time: as forks of a small process that has imported their code.

    python -I -S launcher_server.py LISTENER PACKAGE

A launcher takes a twentieth of a second of a processor to start, nearly all of it for the
interpreter and its imports. A test of a command starts one, and up to two more that try the sandbox
and the record of changes. A fork takes a tenth of that; it is still a process of its own, with
nothing of ours but its control. New interpreters start a real one: see tests/forked.py.
"""

import atexit
import errno
import functools
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import FrameType, ModuleType
from typing import NoReturn

PACKAGE = Path(__file__).parents[1] / "agent_cli"
# Without the code of the packages' own __init__ files, as `launching` starts it.
PACKAGES = ("", ".system", ".sandbox", ".undo")
# The launcher, and what it imports with the first command that needs it.
MODULES = (".system.launcher", ".sandbox.landlock", ".undo.watch")
PID_BYTES = 4


class ForkedLauncher:
    """A launcher, which is not our child."""

    def __init__(self, pid: int, descriptor: int) -> None:
        self.pid = pid
        self._descriptor = descriptor

    def __del__(self) -> None:
        os.close(self._descriptor)

    def poll(self) -> int | None:
        """Return None while it runs."""
        return 0 if self._has_ended(0) else None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end.

        Raises:
            subprocess.TimeoutExpired: It still runs after *timeout* seconds.
        """
        if not self._has_ended(timeout):
            raise subprocess.TimeoutExpired(f"launcher {self.pid}", timeout or 0)
        return 0

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)

    def _has_ended(self, limit_s: float | None) -> bool:
        return bool(select.select([self._descriptor], [], [], limit_s)[0])


_running: set[ForkedLauncher] = set()


def fork_launchers(address: Callable[[], bytes]) -> None:
    """Have the launchers of this process and its forks forked by the server at *address*."""
    from agent_cli.system import launching  # noqa: PLC0415 - not for the server

    @functools.wraps(launching._process)
    def process(control: socket.socket) -> ForkedLauncher:
        with socket.socket(socket.AF_UNIX) as server:
            server.connect(address())
            socket.send_fds(server, [b"+"], [control.fileno()])
            pid, received, _, _ = socket.recv_fds(server, PID_BYTES, 1)
        if not received:  # the kernel drops what has no free number; a real start fails with this
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        [descriptor] = received
        _running.add(launcher := ForkedLauncher(int.from_bytes(pid, "little"), descriptor))
        return launcher

    # `make coverage` counts those that are started.
    if sys.platform == "linux" and "COVERAGE_PROCESS_CONFIG" not in os.environ:
        setattr(launching, "_process", process)  # noqa: B010 - for mypy, too


def running_launchers() -> set[int]:
    """Return the process ids of the launchers that this process has had forked and that run."""
    known = [*_running]  # a copy: another thread of the test may start one meanwhile
    ended = {each for each in known if each.poll() is not None}
    _running.difference_update(ended)
    return {each.pid for each in known if each not in ended}


@functools.cache
def launcher_server() -> tuple[int, bytes]:
    """Start the server, which ends with us; return its process id and its socket's address."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("")  # the kernel chooses a name
        listener.listen()
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, str(listener.fileno()), str(PACKAGE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            cwd="/",
            env={},
            pass_fds=[listener.fileno()],
        )
        atexit.register(process.communicate)  # the end of its input ends it
        return process.pid, listener.getsockname()


def main() -> None:
    """Fork a launcher for each control that comes, until standard input ends."""
    for name in PACKAGES:
        package = ModuleType(f"agent_cli{name}")
        package.__path__ = [sys.argv[2] + name.replace(".", "/")]
        sys.modules[package.__name__] = package
    for name in MODULES:
        import_module(f"agent_cli{name}")
    signal.signal(signal.SIGCHLD, _reap)
    listener = socket.socket(fileno=int(sys.argv[1]))
    while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
        connection, _ = listener.accept()
        # Who asked may be killed at any moment: tests kill programs.
        with connection, suppress(ConnectionError):
            _, controls, _, _ = socket.recv_fds(connection, 1, 1)
            for control in controls:
                _serve(listener, connection, control)


def _serve(listener: socket.socket, connection: socket.socket, control: int) -> None:
    # Its process id stays its own until it is reaped.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    if (pid := os.fork()) == 0:
        listener.close()
        connection.close()
        _launch(control)
    os.close(control)
    descriptor = os.pidfd_open(pid)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
    try:
        socket.send_fds(connection, [pid.to_bytes(PID_BYTES, "little")], [descriptor])
    finally:
        os.close(descriptor)


def _reap(_number: int, _frame: FrameType | None) -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _launch(control: int) -> NoReturn:
    """Be the launcher, as if it was just started."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    os.close(nothing)
    sys.argv = ["-c", str(control)]
    try:
        import_module("agent_cli.system.launcher").main()
    finally:
        os._exit(0)


if __name__ == "__main__":
    main()
