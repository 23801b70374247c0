"""Start commands for a session, each below a keeper that ends it even if the session is killed.

A process that gets SIGKILL cannot clean up. So a session starts this small program once, early, and
sends it an order for each command; see `launching` for the other side. For each order the program
forks a keeper, and the keeper forks the command:

    session ── control ──  launcher          forks; adopts and kills what a dead keeper leaves
       └────── link ─────  └─ keeper         one a command: reports its end, ends the rest
                              └─ command     leads a session and group of its own

The keeper becomes the parent of every process that the command leaves behind (a subreaper). It ends
them all when the link is closed, which the kernel does if the session dies. If the keeper dies, the
command gets SIGKILL, and the launcher kills the rest. If the launcher dies, keepers keep running.

The keeper also guards missing paths that must not be created and cannot be mounted over: it moves
files that appear there aside after a moment, and once more when the command has ended.

`launching` starts it in an interpreter of its own, without the code of the packages' `__init__`
files, so that it imports little.
"""

import contextlib
import ctypes
import gc
import json
import os
import select
import signal
import socket
import sys
from fcntl import F_DUPFD_CLOEXEC, fcntl
from importlib import import_module
from typing import Any, NoReturn, TypeAlias

from agent_cli.system.guard import Guard
from agent_cli.system.orphans import kill_children, kill_strangers, status

LEFT_DESCRIPTOR = 3
"""The descriptor to which a nested command's first shell writes the processes it leaves."""

HEADER_BYTES = 8
_LOOK_AGAIN_S = 1.0
_LEFT_BYTES_MAX = 4096
_HIGH = 64  # above the descriptors that a command may want
_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_IS_LINUX = sys.platform == "linux"

# A JSON object with the fields of `launching.Order`.
_Order: TypeAlias = dict[str, Any]


def serve(control: socket.socket) -> None:
    """Fork a keeper for each order until *control* is closed and the last keeper is gone."""
    signals = _child_signals()
    keepers: set[int] = set()
    poll = select.poll()
    poll.register(signals, select.POLLIN)
    poll.register(control, select.POLLIN)
    is_open = True
    while is_open or keepers:
        ready = {descriptor for descriptor, _ in poll.poll()}
        if signals in ready:
            # Read first: a child that ends after this gives a new signal.
            _read(signals)
            _reap_keepers(keepers)
        if control.fileno() in ready:
            order, descriptors = _received(control)
            if order is None:
                poll.unregister(control)
                is_open = False
                continue
            keepers.add(_fork(order, descriptors, control))
            for descriptor in descriptors:
                os.close(descriptor)


def _received(control: socket.socket) -> tuple[_Order | None, list[int]]:
    """Return the next order and its descriptors: the link, and the command's output."""
    header, descriptors, _, _ = socket.recv_fds(control, HEADER_BYTES, 2)
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    size = int.from_bytes(header, "little")
    if size == 0:
        return None, descriptors
    text = bytearray()
    while len(text) < size:
        text += (piece := control.recv(size - len(text)))
        if not piece:
            return None, descriptors
    order: _Order = json.loads(text)
    if order["restriction"]:
        import_module(order["restriction"]["module"])  # once, not in each child
    return order, descriptors


def _fork(order: _Order, descriptors: list[int], control: socket.socket) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            control.close()
            _keep(order, *descriptors)
        finally:
            os._exit(0)
    return pid


def _reap_keepers(keepers: set[int]) -> None:
    """Reap ended processes; if a keeper was killed, kill the processes it left."""
    was_killed = False
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0] != 0:
            was_killed = was_killed or (ended[0] in keepers and ended[1] != 0)
            keepers.discard(ended[0])
    if was_killed:
        kill_children(lambda pid: pid not in keepers)


def _keep(order: _Order, link_descriptor: int, output: int) -> None:
    """Start the command, report its end, and kill the rest when the link is closed."""
    link = socket.socket(fileno=link_descriptor)
    signals = _child_signals()  # replaces the launcher's pipe
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    guard = Guard(order["missing"], order["aside"])
    left, left_writing = os.pipe()
    os.set_blocking(left, False)
    try:
        child = (_spawn if order["nested"] else _forked)(order, output, left_writing)
    except OSError as error:
        _tell(link, {"failed": str(error)})
        return
    for descriptor in (output, left_writing):
        os.close(descriptor)
    _tell(link, {"pid": child})
    try:
        _watch(child, signals, link, guard, left)
    finally:
        with contextlib.suppress(OSError):
            os.killpg(child, signal.SIGKILL)
        kill_children(lambda _pid: True)
        guard.close()
        _tell(link, {"moved": guard.moved})


def _watch(child: int, signals: int, link: socket.socket, guard: Guard, left: int) -> None:
    """Watch the command and the guard until the session closes the link."""
    poll = select.poll()
    for source in filter(lambda fd: fd >= 0, (link.fileno(), signals, guard.descriptor)):
        poll.register(source, select.POLLIN)
    has_ended = has_strangers = False
    while True:
        limits = [guard.next_due_s(), _LOOK_AGAIN_S if has_strangers else None]
        known = [limit for limit in limits if limit is not None]
        ready = {fd for fd, _ in poll.poll(min(known) * 1000 if known else None)}
        guard.look()
        if link.fileno() in ready:
            return
        if signals in ready:
            _read(signals)  # first: a child that ends after this gives a new signal
        if not has_ended and (code := status(child)) is not None:
            has_ended = True
            names = _read(left)
            has_strangers = kill_strangers(child)
            _tell(link, {"status": code, "left": names.decode(errors="replace")})
        elif has_strangers:
            has_strangers = kill_strangers(child)


def _spawn(order: _Order, output: int, left: int) -> int:
    """Start a program that builds a sandbox and that ends when we die; return its process id.

    A fork would copy memory and run Python, which takes longer than building the sandbox.

    Raises:
        OSError: It cannot be started.
    """
    _volunteer_for_memory_shortage()
    os.chdir(order["cwd"])
    nothing = os.open(os.devnull, os.O_RDONLY)
    high = [fcntl(each, F_DUPFD_CLOEXEC, _HIGH) for each in (nothing, output, left)]
    child = os.posix_spawn(
        order["arguments"][0],
        order["arguments"],
        order["environment"],
        file_actions=[
            (os.POSIX_SPAWN_DUP2, high[0], 0),
            (os.POSIX_SPAWN_DUP2, high[1], 1),
            (os.POSIX_SPAWN_DUP2, high[1], 2),
            (os.POSIX_SPAWN_DUP2, high[2], LEFT_DESCRIPTOR),
            *((os.POSIX_SPAWN_OPEN, fd, path, os.O_RDONLY, 0) for fd, path in order["files"]),
            *((os.POSIX_SPAWN_CLOSE, each) for each in high),
        ],
        setsid=True,
        setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),
    )
    for each in high:
        os.close(each)  # the reader of the output waits until all writers have closed it
    return child


def _forked(order: _Order, output: int, left: int) -> int:
    """Fork a command that restricts itself and that ends when we die; return its process id.

    Raises:
        OSError: It cannot be started.
    """
    failed, failed_writing = os.pipe()
    keeper = os.getpid()
    child = os.fork()
    if child == 0:
        _become(order, keeper, output, left, failed_writing)
    os.close(failed_writing)
    if failure := os.read(failed, _LEFT_BYTES_MAX):
        os.waitpid(child, 0)
        raise OSError(failure.decode(errors="replace"))
    return child


def _volunteer_for_memory_shortage() -> None:
    """Have the kernel kill us and our children before other processes if memory runs out."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:  # noqa: PTH123
        score.write("1000")


def _become(order: _Order, keeper: int, output: int, left: int, failed: int) -> NoReturn:
    """Turn this fresh process into the command; report a failure through *failed*."""
    try:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != keeper:
            os._exit(128 + signal.SIGKILL)
        # Python ignores these two signals, and ignored signals stay ignored across exec.
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        files = [(number, os.open(path, os.O_RDONLY)) for number, path in order["files"]]
        nothing = os.open(os.devnull, os.O_RDONLY)
        wanted = [(0, nothing), (1, output), (2, output), *files]
        if order["nested"]:
            wanted.append((LEFT_DESCRIPTOR, left))
        # Move all descriptors up first, since one may have the number that another one needs.
        every = (*wanted, (-1, failed))
        high = [(number, fcntl(found, F_DUPFD_CLOEXEC, _HIGH)) for number, found in every]
        for number, found in high[:-1]:
            os.dup2(found, number)
        failed = high[-1][1]
        _volunteer_for_memory_shortage()  # before the restriction forbids it
        os.chdir(order["cwd"])
        if order["restriction"]:
            import_module(order["restriction"]["module"]).restrict_as_told(order["restriction"])
            # Dropping capabilities has cleared this setting.
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.execve(order["arguments"][0], order["arguments"], order["environment"])
    except BaseException as error:
        os.write(failed, str(error).encode(errors="replace"))
    finally:
        os._exit(127)


def _child_signals() -> int:
    """Return a descriptor that becomes readable when a child has ended."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    # The handler does nothing: the signal arrives through the pipe.
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    return reading


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _LEFT_BYTES_MAX)
    except BlockingIOError:
        return b""


def _tell(link: socket.socket, message: dict[str, Any]) -> None:
    # The session may have ended.
    with contextlib.suppress(OSError):
        link.sendall(json.dumps(message).encode() + b"\n")


def _prctl(option: int, value: int) -> None:
    if _IS_LINUX:
        _LIBC.prctl(option, value, 0, 0, 0)


def main() -> None:
    """Serve the session that started us; the descriptor is the first argument."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    # A collection writes to every object, which would copy the memory that keepers share.
    gc.disable()
    gc.freeze()
    serve(socket.socket(fileno=int(sys.argv[1])))
