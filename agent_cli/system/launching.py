"""The session's side of the launcher: send orders, and receive messages of keepers.

Programs that get the terminal have a keeper of their own: see `on_terminal`.
"""

import asyncio
import contextlib
import fcntl
import json
import os
import socket
import subprocess
import sys
import threading
import weakref
from _thread import start_new_thread
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, BinaryIO

from agent_cli.system.records import dataclass, field

_PACKAGE = Path(__file__).parents[1]
# Replace the packages' own __init__ files, whose imports take a second and are for the session.
_PROGRAM = """
import sys, types
from importlib import import_module
for name in ("", ".system", ".sandbox", ".undo"):
    package = types.ModuleType("agent_cli" + name)
    package.__path__ = [sys.argv[2] + name.replace(".", "/")]
    sys.modules[package.__name__] = package
module, sys.argv[1:] = sys.argv[1], sys.argv[3:]
import_module(module).main()
"""
_END_LIMIT_S = 2.0
# For an editor to save its draft, also on a busy machine. Nobody waits for it where the terminal is
# closed, and a service manager that ends us kills what is left only later.
HANG_UP_GRACE_S = 10.0
_RECEIVED_BYTES = 65_536
# As much as Linux lets a pipe hold for an ordinary user.
REST_BYTES_MAX = 1_048_576
# Linux takes 128 KiB, and all arguments together are at least 2 MiB.
_ARGUMENT_MAX = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Restriction:
    """Restrictions that the command's process applies to itself before it starts.

    Attributes:
        module: Our module, which imports little, with a `restrict_thread` that takes these fields
            as a dictionary, and a `main` that does so for its own process: see `restricted`.
    """

    module: str
    readable: Sequence[str]
    writable: Sequence[str]
    network: bool
    seccomp: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedFiles:
    """The files that a command names, which are kept because its calls cannot be stopped.

    Attributes:
        why: Why they cannot.
        paths: What is there, what is in a folder before the folder.
        absent: Names of files that it may make.
        unkept: Files and folders that are not kept, each with the reason.
        by_link: Whether it only deletes files, or gives their names to others: then a hard link
            keeps one.
    """

    why: str
    paths: Sequence[str] = ()
    absent: Sequence[str] = ()
    unkept: Mapping[str, str] = field(default_factory=dict[str, str])
    by_link: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """The recording of a command's changes, so that they can be undone.

    Attributes:
        module: Our module with the `CommandWatch` that takes these fields as a dictionary.
        folder: The new folder of the log; `keeper.LOCK` in it is locked until all processes of the
            command have ended.
        ask_beyond_files: How many files it may delete or overwrite before the session is asked; 0:
            any number. `ask_beyond_bytes`: the same for their sizes.
        store: The folder with the logs of all commands, which may be given up for space; "" if the
            log is on its own.
        roots: The real folders whose files are recorded.
        copy_bytes_max: Larger files are not copied.
        header: Fields of the first line of the log.
        alone_since_ns: Nobody can be asked; files that changed since then do not count, nor those
            that git holds as they are. In nanoseconds of the clock on the wall; 0: all count.
        replaced: Where nobody can be asked: the files that existed before the run, by path, each
            with the copy that earlier commands and tools of the run kept ("": none).
        takes_rights: Whether it is recorded even if `sudo` and the like then fail in it.
        named: Its calls cannot be stopped, and these files are kept instead; None: they can.
    """

    module: str
    folder: str
    roots: Sequence[str]
    copy_bytes_max: int
    header: Mapping[str, str]
    store: str = ""
    ask_beyond_files: int = 0
    ask_beyond_bytes: int = 0
    alone_since_ns: int = 0
    replaced: Mapping[str, str] = field(default_factory=dict[str, str])
    takes_rights: bool = False
    named: NamedFiles | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A command to start.

    Attributes:
        arguments: The first is the absolute path of the program.
        files: Files to open for reading, each with the number of its descriptor.
        nested: Whether the command runs in a process namespace of its own; then it writes to
            `LEFT_DESCRIPTOR` that it runs, and which processes it leaves.
        spares: Whether processes that the command leaves may outlive it; see `KeeperLink.spare`.
        watched: How its changes are recorded; None: not at all.
        rest: The number of the descriptor from which the program reads the rest of its arguments,
            until `KeeperLink.complete`; for a nested command only. -1: they are all here.
    """

    arguments: Sequence[str]
    cwd: str
    environment: Mapping[str, str]
    files: Sequence[tuple[int, str]] = ()
    restriction: Restriction | None = None
    nested: bool = False
    spares: bool = False
    watched: Watched | None = None
    rest: int = -1

    def to_json(self) -> bytes:
        """Return the order as the launcher receives it."""
        # Not `asdict` for all: it copies every string of the environment and the arguments.
        plain = {each.name: getattr(self, each.name) for each in fields(self)}
        plain["restriction"] = self.restriction and asdict(self.restriction)
        plain["watched"] = self.watched and asdict(self.watched)
        return json.dumps(plain, default=dict).encode()


def on_terminal(command: Sequence[str]) -> list[str]:
    """Return the command line that runs *command* on our terminal, and ends it when we die.

    Only this process may start it. SIGTERM ends it with all that *command* started.
    """
    grace = str(HANG_UP_GRACE_S)
    return program(f"{__package__}.on_terminal", str(os.getpid()), grace, *command)


def restricted(restriction: Restriction, command: Sequence[str]) -> list[str]:
    """Return the command line that applies *restriction* to itself, then becomes *command*.

    A restriction of folders with many entries is longer than one argument may be.
    """
    options = json.dumps(asdict(restriction))
    parts = [options[at : at + _ARGUMENT_MAX] for at in range(0, len(options), _ARGUMENT_MAX)]
    return program(restriction.module, str(len(parts)), *parts, *command)


def program(module: str, *arguments: str) -> list[str]:
    """Return the command line for the `main` of *module*, one of ours that imports little."""
    return [sys.executable, "-I", "-S", "-c", _PROGRAM, module, str(_PACKAGE), *arguments]


@dataclass(slots=True, weakref_slot=True, eq=False)
class KeeperLink:
    """The connection to a command's keeper; closing or dropping it ends all processes.

    Messages: {"pid"} or {"failed"}; {"asks"} while a call of the command stands still for `answer`,
    which may overtake "pid"; {"status", "left"} when the command has ended, {"over"} when all its
    processes have ended: in the same message, or after the link was closed.
    """

    socket: socket.socket
    messages: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    is_closed: bool = False
    rest: BinaryIO | None = None
    _buffer: bytes = b""

    def __post_init__(self) -> None:
        weakref.finalize(self, self.socket.close)
        if self.rest:
            weakref.finalize(self, self.rest.close)

    def take(self, received: bytes) -> None:
        """Parse data *received* from the socket; no data means that the keeper has ended."""
        self.is_closed = not received
        *lines, self._buffer = (self._buffer + received).split(b"\n")
        self.messages += map(json.loads, lines)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Receive messages until *condition* holds or the keeper has ended."""
        while not condition() and not self.is_closed:
            try:
                loop = asyncio.get_running_loop()
                self.take(await loop.sock_recv(self.socket, _RECEIVED_BYTES))
            except ConnectionError:
                self.take(b"")

    async def pid(self) -> int:
        """Return the process id of the command, once it has started.

        Raises:
            OSError: It could not be started.
        """
        await self.until(lambda: bool(self.found("pid") or self.found("failed")))
        if failed := self.found("failed"):
            raise OSError(failed["failed"])
        if (started := self.found("pid")) is None:
            raise OSError("the program that starts it was killed")
        return int(started["pid"])

    def complete(self, arguments: bytes) -> bool:
        """Send the rest of the arguments, each with a NUL behind it; return whether a pipe can.

        All or none of them: if we were killed in between, the program would run with those it got.
        """
        assert self.rest
        if len(arguments) > REST_BYTES_MAX:
            return False
        try:
            if len(arguments) > fcntl.fcntl(self.rest, fcntl.F_GETPIPE_SZ):
                fcntl.fcntl(self.rest, fcntl.F_SETPIPE_SZ, len(arguments))
        except OSError:  # the pipes of this user hold too much already
            return False
        with contextlib.suppress(BrokenPipeError), self.rest:  # `pid` says what failed
            self.rest.write(arguments)
        return True

    def receive_now(self) -> None:
        """Receive the messages that have arrived, without waiting."""
        with contextlib.suppress(BlockingIOError):
            self.take(self.socket.recv(_RECEIVED_BYTES))

    def answer(self, *, goes_on: bool) -> None:
        """Answer the question of the keeper."""
        from agent_cli.system.keeper import GO_ON, REFUSE  # with the launcher

        with contextlib.suppress(OSError):
            self.socket.send(GO_ON if goes_on else REFUSE)

    def spare(self) -> None:
        """Close the link of a command that has ended, and let what it left run on."""
        from agent_cli.system.keeper import SPARE  # with the launcher

        with contextlib.suppress(OSError):
            self.socket.send(SPARE)
        self.socket.close()
        self.is_closed = True

    def end(self, limit_s: float) -> bool:
        """Ask the keeper to end all processes and wait for it; return whether it did."""
        try:
            if self.found("over"):  # none is left
                return True
            self.socket.shutdown(socket.SHUT_WR)
            self.socket.settimeout(limit_s)
            while not self.found("over") and (received := self.socket.recv(_RECEIVED_BYTES)):
                self.take(received)
        except OSError:
            return False
        finally:
            self.socket.close()
            if self.rest:
                self.rest.close()
        self.is_closed = True
        return True

    def found(self, key: str) -> Any:
        """Return the message with *key*; None if there is none yet."""
        return next((each for each in self.messages if key in each), None)


class Launcher:
    """The small process that starts the commands of a session; started early, or on demand."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._was_closed = False
        self._running: tuple[socket.socket, subprocess.Popen[bytes]] | None = None
        self._end: Callable[[], object] = lambda: None

    def start(self) -> None:
        """Start the process, in any thread, unless it runs or was closed; an order reports why."""
        with self._lock, contextlib.suppress(OSError):
            if not self._was_closed:
                self._started()

    def launch(self, order: Order, errors: int = -1) -> tuple[KeeperLink, int]:
        """Start *order*; return the link to its keeper, and the descriptor of its output.

        Its standard error is the descriptor *errors*; -1: the same as its output.

        Raises:
            OSError: The launcher cannot be started.
            ValueError: The order contains a NUL character.
        """
        if any("\0" in text for text in (*order.arguments, *order.environment.values())):
            raise ValueError("embedded null byte")
        ours, theirs = socket.socketpair()
        reading = writing = taking = giving = -1
        try:
            reading, writing = os.pipe()
            taking, giving = os.pipe() if order.rest >= 0 else (-1, -1)
            more = [number for number in (errors, taking) if number >= 0]
            self._send(order.to_json(), [theirs.fileno(), writing, *more])
        except BaseException:
            ours.close()
            for each in {reading, giving} - {-1}:
                os.close(each)
            raise
        finally:
            theirs.close()
            for each in {writing, taking} - {-1}:
                os.close(each)
        return KeeperLink(ours, rest=os.fdopen(giving, "wb") if giving >= 0 else None), reading

    def close(self) -> None:
        """Let the process end; running keepers end their commands when their links are closed."""
        with self._lock:
            self._was_closed = True
            self._forget()

    def _send(self, text: bytes, descriptors: list[int]) -> None:
        from agent_cli.system.launcher import HEADER_BYTES  # with the launcher

        header = len(text).to_bytes(HEADER_BYTES, "little")
        with self._lock:
            for is_last_try in (False, True):
                try:
                    control = self._started()
                    socket.send_fds(control, [header], descriptors)
                    control.sendall(text)
                except (BrokenPipeError, ConnectionResetError):
                    self._forget()  # It was killed; start another one.
                    if is_last_try:
                        raise
                else:
                    return

    def _started(self) -> socket.socket:
        # Until its spare keeper sees that it was killed, an order is sent, and taken by nobody.
        if self._running is None or self._running[1].poll() is not None:
            self._forget()
            with contextlib.ExitStack() as failed:
                ours, theirs = map(failed.enter_context, socket.socketpair())
                process = _process(theirs)
                failed.pop_all()
            theirs.close()
            self._running = ours, process
            self._end = weakref.finalize(self, _end, ours, process)
        return self._running[0]

    def _forget(self) -> None:
        self._running = None
        self._end()


def _process(control: socket.socket) -> "subprocess.Popen[bytes]":
    """Start the process that takes its orders from *control*."""
    return subprocess.Popen(
        program(f"{__package__}.launcher", str(control.fileno())),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={},
        pass_fds=[control.fileno()],
        start_new_session=True,
    )


def _end(control: socket.socket, process: "subprocess.Popen[bytes]") -> None:
    """Let *process* end, without waiting for it: the end of a program need not take longer."""
    control.close()
    if process.poll() is None:
        with contextlib.suppress(RuntimeError):  # Python is ending, and lets nobody start threads
            # Not `threading.Thread`, which waits until the thread runs.
            start_new_thread(_reap, (process,))


def _reap(process: "subprocess.Popen[bytes]") -> None:
    try:
        process.wait(_END_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
