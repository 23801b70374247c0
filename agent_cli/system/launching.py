"""The session's side of the launcher: send orders, and receive messages of keepers."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from agent_cli.system.launcher import HEADER_BYTES

_PACKAGE = Path(__file__).parents[1]
# What the packages' own __init__ files load is for the session, and costs a second.
_PROGRAM = """
import sys, types
for name in ("", ".system", ".sandbox"):
    package = types.ModuleType("agent_cli" + name)
    package.__path__ = [sys.argv[2] + name.replace(".", "/")]
    sys.modules[package.__name__] = package
from agent_cli.system.launcher import main
main()
"""
_END_LIMIT_S = 2.0
_RECEIVED_BYTES = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Restriction:
    """Restrictions the command's process applies to itself before it starts.

    Attributes:
        module: One of ours with `restrict_as_told`, which gets all of this as a dictionary.
    """

    module: str
    readable: Sequence[str]
    writable: Sequence[str]
    network: bool
    seccomp: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A command to start.

    Attributes:
        arguments: The first is the absolute path of the program.
        files: Files to open for reading, each under a descriptor of this number.
        nested: It has processes of its own, and writes to `LEFT_DESCRIPTOR` which it leaves.
        missing: Paths that must not come into being; what appears there is moved to `aside`.
    """

    arguments: Sequence[str]
    cwd: str
    environment: Mapping[str, str]
    files: Sequence[tuple[int, str]] = ()
    restriction: Restriction | None = None
    nested: bool = False
    missing: Sequence[str] = ()
    aside: str = ""


@dataclass(slots=True, weakref_slot=True, eq=False)
class KeeperLink:
    """The connection with a command's keeper; everything ends when it is closed or forgotten.

    Messages: {"pid"} or {"failed"} first, {"status", "left"} when the command has ended, {"moved"}
    last, after which the keeper is gone and nothing of the command runs.
    """

    socket: socket.socket
    messages: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    is_closed: bool = False
    _buffer: bytes = b""

    def __post_init__(self) -> None:
        weakref.finalize(self, self.socket.close)

    def take(self, received: bytes) -> None:
        """Note what was *received* from the socket; nothing means that the keeper is gone."""
        self.is_closed = not received
        *lines, self._buffer = (self._buffer + received).split(b"\n")
        self.messages += map(json.loads, lines)

    def end(self, limit_s: float) -> bool:
        """Ask the keeper to end everything and wait for that; return whether it did."""
        try:
            self.socket.shutdown(socket.SHUT_WR)
            self.socket.settimeout(limit_s)
            while received := self.socket.recv(_RECEIVED_BYTES):
                self.take(received)
        except OSError:
            return False
        finally:
            self.socket.close()
        self.is_closed = True
        return True

    def found(self, key: str) -> Any:
        """Return the message with *key*; None when there is none yet."""
        return next((each for each in self.messages if key in each), None)


class Launcher:
    """One small process that starts the commands of a session; started early, or when needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._was_closed = False
        self._control: socket.socket | None = None
        self._end: weakref.finalize[..., Launcher] | None = None

    def start(self) -> None:
        """Start it, unless it runs or was closed; the first order tells what fails.

        May be called in any thread.
        """
        with self._lock, contextlib.suppress(OSError):
            if not self._was_closed:
                self._started()

    def launch(self, order: Order) -> tuple[KeeperLink, int]:
        """Have *order* started; return the link with its keeper, and where its output comes from.

        Raises:
            OSError: There is no launcher to be had.
            ValueError: The order holds what no argument can, e.g. NUL.
        """
        if any("\0" in text for text in (*order.arguments, *order.environment.values())):
            raise ValueError("embedded null byte")
        ours, theirs = socket.socketpair()
        reading, writing = os.pipe()
        try:
            self._send(json.dumps(asdict(order)).encode(), [theirs.fileno(), writing])
        except BaseException:
            ours.close()
            os.close(reading)
            raise
        finally:
            theirs.close()
            os.close(writing)
        return KeeperLink(ours), reading

    def close(self) -> None:
        """Let it go; keepers that still run end their commands when their links are closed."""
        with self._lock:
            self._was_closed = True
            self._forget()

    def _send(self, text: bytes, descriptors: list[int]) -> None:
        header = len(text).to_bytes(HEADER_BYTES, "little")
        with self._lock:
            for is_last_try in (False, True):
                try:
                    control = self._started()
                    socket.send_fds(control, [header], descriptors)
                    control.sendall(text)
                except (BrokenPipeError, ConnectionResetError):
                    self._forget()  # Killed by somebody; another one takes its place.
                    if is_last_try:
                        raise
                else:
                    return

    def _started(self) -> socket.socket:
        if self._control is None:
            ours, theirs = socket.socketpair()
            with theirs:
                process = subprocess.Popen(
                    [
                        sys.executable,
                        "-I",
                        "-S",
                        "-c",
                        _PROGRAM,
                        str(theirs.fileno()),
                        str(_PACKAGE),
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    env={},
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
            self._control = ours
            self._end = weakref.finalize(self, _end, ours, process)
        return self._control

    def _forget(self) -> None:
        self._control = None
        if self._end is not None:
            self._end()


def _end(control: socket.socket, process: "subprocess.Popen[bytes]") -> None:
    control.close()
    try:
        process.wait(_END_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
