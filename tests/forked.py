"""Start our programs without import time: as forks of a process that has already imported them.

A start of the real program takes two seconds, nearly all of it imports; a fork takes a tenth. It is
still a separate process: signals, exit codes, streams and terminals are real. Checks that need a
new interpreter (loaded modules, entries of /proc) pass `fresh=True`.
"""

import atexit
import functools
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO, Self

from tests.fork_server import HEADER, Order
from tests.launcher_server import launcher_server

SERVER = Path(__file__).with_name("fork_server.py")
AS_FORK = str(Path(__file__).with_name("as_fork.py"))
LIMIT_S = 60.0
# Prefix of the variables the interpreter reads at start; a fork reads PYTHONPATH too.
READ_AT_START = ("PYTHON", "LC_", "LANG")
# Tests may start programs in several threads, and the server answers orders one by one.
_ordering = threading.Lock()
_importers: list["subprocess.Popen[bytes]"] = []


class Program:
    """A program that runs, until the end of the `with` block at the latest."""

    def __init__(self, pid: int, status: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._status = status

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_failure: object) -> None:
        self.kill()
        self.wait()

    def poll(self) -> int | None:
        """Return the exit code, minus the signal's number after a signal; None while it runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(timeout=0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit code.

        Raises:
            subprocess.TimeoutExpired: It still runs after *timeout* seconds.
        """
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
            self.returncode = int(os.read(self._status, 16))
            os.close(self._status)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            # It may have ended, and its exit code not have arrived yet.
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal, unless it has ended."""
        self.send_signal(number)


class PipedProgram(Program):
    """A program on pipes; it is killed after *limit_s*, so that no read waits for ever."""

    def __init__(
        self,
        pid: int,
        status: int,
        stdin: IO[str],
        stdout: IO[str],
        stderr: IO[str],
        limit_s: float = LIMIT_S,
    ) -> None:
        super().__init__(pid, status)
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr
        self._limit = threading.Timer(limit_s, os.kill, (pid, signal.SIGKILL))
        self._limit.start()

    def __exit__(self, *failure: object) -> None:
        super().__exit__(*failure)
        for stream in (self.stdin, self.stdout, self.stderr):
            with suppress(BrokenPipeError):
                stream.close()

    def wait(self, timeout: float | None = None) -> int:
        code = super().wait(timeout)
        self._limit.cancel()
        return code

    def communicate(self, stdin: str = "") -> tuple[str, str]:
        """Write and close *stdin*, read the open streams to their end; return stdout and stderr."""
        with ThreadPoolExecutor(2) as readers:
            stdout, stderr = (
                readers.submit(_read_to_end, stream) for stream in (self.stdout, self.stderr)
            )
            if not self.stdin.closed:
                with suppress(BrokenPipeError), self.stdin:
                    self.stdin.write(stdin)
        self.wait()
        return stdout.result(), stderr.result()


def start(
    script: str,
    *arguments: str,
    environment: Mapping[str, str],
    fresh: bool = False,
    limit_s: float = LIMIT_S,
    folder: Path | None = None,
) -> PipedProgram:
    """Run a Python script with pipes as its streams, in *folder*, by default ours."""
    pipes = [os.pipe() for _ in range(3)]
    (stdin, our_stdin), (our_stdout, stdout), (our_stderr, stderr) = pipes
    streams = [stdin, stdout, stderr]
    command = [script, *arguments]
    pid, status = _order(command, environment, streams, fresh=fresh, folder=folder)
    return PipedProgram(
        pid,
        status,
        os.fdopen(our_stdin, "w"),
        os.fdopen(our_stdout),
        os.fdopen(our_stderr),
        limit_s,
    )


def start_unheard(script: str, *arguments: str) -> Program:
    """Run a Python script without streams, in our environment, until it is killed."""
    # Not pipes: an unread one fills up some day, and then the program blocks.
    streams = [os.open(os.devnull, os.O_RDWR) for _ in range(3)]
    return Program(*_order([script, *arguments], os.environ, streams, fresh=False))


def start_in_terminal(
    *command: str,
    terminal: int,
    environment: Mapping[str, str],
    fresh: bool = False,
    folder: Path | None = None,
) -> Program:
    """Run a command that begins with a Python script (any, if fresh) in a terminal.

    Args:
        command: The program and its arguments.
        terminal: The descriptor of a pty's far side; it is taken over.
        environment: All its variables.
        fresh: In a process that is not a fork.
        folder: Where it runs, by default our working directory.
    """
    streams = [terminal] * 3
    return Program(
        *_order(command, environment, streams, fresh=fresh, folder=folder, in_terminal=True)
    )


def arguments_of(script: str, *arguments: str) -> list[str]:
    """Return the arguments with which `sys.executable` runs a Python script as a fork.

    They are for servers that our programs start. Without abstract sockets it is no fork.
    """
    if sys.platform != "linux":
        return [script, *arguments]
    name = _server()[2].getsockname().decode().removeprefix("\0")
    return ["-I", "-S", AS_FORK, name, script, *arguments]


def server_pids() -> set[int]:
    """Return the process id of the server, if there is one."""
    return {_server()[0]} if _server.cache_info().currsize else set()


def importer_pids() -> set[int]:
    """Return the process ids of our children from which the servers of all workers are forked."""
    return {each.pid for each in _importers}


def needs_an_interpreter(environment: Mapping[str, str]) -> bool:
    """Return whether *environment* has variables that only a new interpreter would read."""

    def of(variables: Mapping[str, str]) -> dict[str, str]:
        names = {name for name in variables if name.startswith(READ_AT_START)} - {"PYTHONPATH"}
        return {name: variables[name] for name in names}

    return of(environment) != of(os.environ)


def _read_to_end(stream: IO[str]) -> str:
    return "" if stream.closed else stream.read()


def _order(
    command: Sequence[str],
    environment: Mapping[str, str],
    streams: Sequence[int],
    *,
    fresh: bool,
    folder: Path | None = None,
    in_terminal: bool = False,
) -> tuple[int, int]:
    """Return the program's process id, and a descriptor that will yield its exit code."""
    fresh = fresh or needs_an_interpreter(environment)
    if fresh and command[0].endswith(".py"):
        command = [sys.executable, *command]
    order = Order([*command], {**environment}, str(folder or Path.cwd()), in_terminal, fresh)
    message = json.dumps(order).encode()
    status, writing = os.pipe()
    try:
        pid = _ask_server(message, [*streams, writing])
    finally:
        for descriptor in {*streams, writing}:
            os.close(descriptor)
    return pid, status


def _ask_server(message: bytes, descriptors: Sequence[int]) -> int:
    with _ordering:
        _, server, _ = _server()
        try:
            socket.send_fds(server, [HEADER.pack(len(message))], descriptors)
            server.sendall(message)
            (pid,) = HEADER.unpack(server.recv(HEADER.size, socket.MSG_WAITALL))
        except (OSError, struct.error) as error:
            # The next order gets a new one.
            _server.cache_clear()
            server.close()
            raise RuntimeError("the fork server ended; stderr tells why") from error
    return int(pid)


@functools.cache
def _server() -> tuple[int, socket.socket, socket.socket]:
    """Have a server forked; return its process id. It ends when the first socket is closed.

    The other one listens, for `as_fork.py`.
    """
    listener = socket.socket(socket.AF_UNIX)
    launchers = b"-"
    if sys.platform == "linux":
        listener.bind("")  # the kernel chooses a name
        listener.listen()
        launchers = launcher_server()[1]
    deadline_s = time.monotonic() + LIMIT_S
    while True:
        has_started = _start_importer()
        ours, theirs = socket.socketpair()
        with theirs, suppress(ConnectionError), socket.socket(socket.AF_UNIX) as importer:
            importer.connect(_importer_address())
            passed = [theirs, listener] if sys.platform == "linux" else [theirs]
            socket.send_fds(importer, [launchers], [each.fileno() for each in passed])
        # Its imports must not count in the time limits of the first program it starts.
        if answer := ours.recv(HEADER.size, socket.MSG_WAITALL):
            break
        ours.close()
        if has_started or time.monotonic() > deadline_s:
            raise RuntimeError("the fork server did not start; stderr tells why")
        time.sleep(0.01)  # another worker's has just ended, or does not listen yet

    def end() -> None:
        listener.close()
        with ours, suppress(OSError):  # closed, if the server has ended before
            ours.shutdown(socket.SHUT_WR)
            ours.recv(1)  # returns when it has ended

    atexit.register(end)
    return *HEADER.unpack(answer), ours, listener


def _start_importer() -> bool:
    """Start the process that servers are forked from, unless one listens; return whether we did."""
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            listener.bind(_importer_address())
        except OSError:
            return False
        listener.listen()
        process = subprocess.Popen(
            [sys.executable, "-P", str(SERVER), str(listener.fileno())],
            cwd="/",  # not a test's folder, which may be that of another test later
            pass_fds=[listener.fileno()],
            stdin=subprocess.PIPE,
        )
    _importers.append(process)
    atexit.register(process.communicate)  # the end of its input ends it
    return True


@functools.cache
def _importer_address() -> str:
    """Return where the importer listens: one for all workers of a run, and not for runs in tests.

    Those may be of other sources.
    """
    if sys.platform != "linux":
        return str(Path(tempfile.mkdtemp(), "importer"))
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    return f"\0agent-cli-{run}-{os.getppid()}" if run else f"\0agent-cli-{os.getpid()}"
