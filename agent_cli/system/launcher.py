"""Start commands for a session, each below a keeper that ends all it started, however we die.

A process that is killed with SIGKILL can clean up nothing. So a session starts this small program
once, early, and sends it an order for each command; see `launching` for the other side. For each
order the program forks a keeper, and the keeper forks the command:

    session ── control ──  launcher          forks; adopts and kills what a dead keeper leaves
       └────── link ─────  └─ keeper         one a command: reports its end, ends the rest
                              └─ command     leads a session and group of its own

The keeper is the parent of all the command leaves behind (a subreaper). It ends everything when the
link is closed, which the kernel does if the session dies. If the keeper dies, the command gets
SIGKILL, and the launcher kills what was left. If the launcher dies, keepers go on as they are.

The keeper also guards paths that must not come into being, and that nothing can be mounted on: what
appears there is moved aside after a moment, and when the command has ended.

`launching` starts it in an interpreter of its own, where the packages above are not loaded; it
imports little.
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
"""Where a nested command's first shell writes the names of what it leaves running."""

HEADER_BYTES = 8
_LOOK_AGAIN_S = 1.0
_LEFT_BYTES_MAX = 4096
_HIGH = 64  # above the numbers a command may want
_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_IS_LINUX = sys.platform == "linux"

# What json holds; `launching.Order` says what stands in it.
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
            # Read first: what ends from here on is told again.
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
    """Return the next order and its descriptors: the link, where output goes."""
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
    """Collect the dead; kill what a keeper left that was killed itself."""
    was_killed = False
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0] != 0:
            was_killed = was_killed or (ended[0] in keepers and ended[1] != 0)
            keepers.discard(ended[0])
    if was_killed:
        kill_children(lambda pid: pid not in keepers)


def _keep(order: _Order, link_descriptor: int, output: int) -> None:
    """Start the command, report how it ends, and end the rest when the link is closed."""
    link = socket.socket(fileno=link_descriptor)
    signals = _child_signals()  # from here on ours alone
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
    """Return when the session closes the link."""
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
            _read(signals)  # first: what ends from here on is told again
        if not has_ended and (code := status(child)) is not None:
            has_ended = True
            names = _read(left)
            has_strangers = kill_strangers(child)
            _tell(link, {"status": code, "left": names.decode(errors="replace")})
        elif has_strangers:
            has_strangers = kill_strangers(child)


def _spawn(order: _Order, output: int, left: int) -> int:
    """Start a program that builds a sandbox, and ends with us by itself; return its id.

    Not a fork of ours, which would copy memory and run Python: that takes longer than the sandbox.

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
        os.close(each)  # who reads the output waits until nobody can write it
    return child


def _forked(order: _Order, output: int, left: int) -> int:
    """Start a command as a fork of ours that restricts itself and ends with us; return its id.

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
    """Have the kernel kill us, and what we start, before others when memory runs out."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:  # noqa: PTH123
        score.write("1000")


def _become(order: _Order, keeper: int, output: int, left: int, failed: int) -> NoReturn:
    """Turn this fresh process into the command; without success, say why through *failed*."""
    try:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != keeper:
            os._exit(128 + signal.SIGKILL)
        # Python ignores these two, and what is ignored stays ignored across exec.
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        files = [(number, os.open(path, os.O_RDONLY)) for number, path in order["files"]]
        nothing = os.open(os.devnull, os.O_RDONLY)
        wanted = [(0, nothing), (1, output), (2, output), *files]
        if order["nested"]:
            wanted.append((LEFT_DESCRIPTOR, left))
        # Out of the way first: one that is wanted may have the number of another.
        every = (*wanted, (-1, failed))
        high = [(number, fcntl(found, F_DUPFD_CLOEXEC, _HIGH)) for number, found in every]
        for number, found in high[:-1]:
            os.dup2(found, number)
        failed = high[-1][1]
        _volunteer_for_memory_shortage()  # before it is restricted
        os.chdir(order["cwd"])
        if order["restriction"]:
            import_module(order["restriction"]["module"]).restrict_as_told(order["restriction"])
            # Giving up capabilities took it back.
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.execve(order["arguments"][0], order["arguments"], order["environment"])
    except BaseException as error:
        os.write(failed, str(error).encode(errors="replace"))
    finally:
        os._exit(127)


def _child_signals() -> int:
    """Return a descriptor that has something to read whenever a child has ended."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    # The handler has nothing to do: the signal arrives through the pipe.
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    return reading


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _LEFT_BYTES_MAX)
    except BlockingIOError:
        return b""


def _tell(link: socket.socket, message: dict[str, Any]) -> None:
    # The session may be gone.
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
    # A collection would write to every object, and so copy the memory that keepers share with us.
    gc.disable()
    gc.freeze()
    serve(socket.socket(fileno=int(sys.argv[1])))
