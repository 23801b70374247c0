"""Keep one command: start it, report its end, and end all that it leaves; see `launcher`.

Imports little: see `launcher`.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Callable
from fcntl import F_DUPFD_CLOEXEC, LOCK_EX, LOCK_NB, LOCK_UN, fcntl, flock
from functools import partial
from importlib import import_module
from typing import Any, NoReturn, Protocol, TypeAlias

from agent_cli.system.orphans import has_others, kill_children, kill_strangers, status

LEFT_DESCRIPTOR = 3
"""The descriptor to which a nested command's first shell writes: see `Order.nested`."""

SPARE = b"s"
"""Written to the link of a command that `spares`: leave what it left, instead of ending it."""

GO_ON, REFUSE = b"y", b"n"
"""Written to the link of a command: the answer to the question of a `CommandWatcher`."""

LOCK = "lock"
"""The file in the folder of `launching.Watched` that is locked while the command changes files."""

Order: TypeAlias = dict[str, Any]
"""A JSON object with the fields of `launching.Order`."""

Outputs: TypeAlias = tuple[int, int]
"""The descriptors of standard output and error, which may be the same one."""

_LOOK_AGAIN_S = 1.0
_LEFT_BYTES_MAX = 4096
_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_IS_LINUX = sys.platform == "linux"
_IGNORED = (signal.SIGPIPE, signal.SIGXFSZ)


class CommandWatcher(Protocol):
    """Stops the changes of a command until they are recorded; see `launching.Watched`.

    Attributes:
        is_on: Whether it stops calls.
        reason: Why the command runs unwatched; "" if it is watched.
    """

    is_on: bool
    reason: str

    def start(self, start: Callable[[], int]) -> int:
        """Start the command by *start*, and return its process id."""
        ...

    def look(self) -> float:
        """Let a call go on that is held for too long; return the seconds to the next look."""
        ...

    def answer(self, *, goes_on: bool) -> None:
        """Bring the answer to its question, for which a call stands still."""
        ...

    def end(self) -> None:
        """Record the end of all its processes."""
        ...


def keep(
    order: Order,
    link_descriptor: int,
    outputs: Outputs,
    signals: int,
    lock: int = -1,
    rest: int = -1,
) -> None:
    """Start the command, report its end, and kill the rest when the link is closed.

    A command that `spares` may leave processes: the session says so once it has ended by itself.

    Args:
        order: The command.
        link_descriptor: The connection to the session.
        outputs: The command's standard output and error.
        signals: The descriptor that says that a child has ended.
        lock: The descriptor of `held_lock`.
        rest: The descriptor with the rest of its arguments.
    """
    link = socket.socket(fileno=link_descriptor)
    try:
        left, left_writing = os.pipe()
        os.set_blocking(left, False)
        if order["nested"]:
            start = partial(_spawn, order, outputs, left_writing, rest)
        else:
            start = partial(_forked, order, outputs, left_writing)
        watch = _watch_over(order, left, link)
        child = watch.start(start) if watch else start()
    except Exception as error:  # nobody else would learn of it: this process has no stderr
        _tell(link, {"failed": str(error) or type(error).__name__})
        return
    for descriptor in {*outputs, left_writing, rest} - {-1}:
        os.close(descriptor)
    _tell(link, {"pid": child, "unwatched": watch.reason} if watch else {"pid": child})
    is_over = is_spared = False
    try:
        look = has_others if order["spares"] else kill_strangers
        is_over = _watch(
            child=child,
            signals=signals,
            link=link,
            left=left,
            look=look,
            end=partial(_end, watch, lock),
            watch=watch,
        )
        is_spared = not is_over and order["spares"] and link.recv(len(SPARE)) == SPARE
    finally:
        if not is_spared:
            with contextlib.suppress(OSError):
                os.killpg(child, signal.SIGKILL)
            kill_children(lambda _pid: True)
        if not is_over:
            _end(watch, lock)
            _tell(link, {"over": True})


def held_lock(order: Order) -> int:
    """Return a descriptor that holds the lock of a watched command; -1 if there is none.

    The launcher has it too, until it has killed what a dead keeper leaves.
    """
    if not order["watched"]:
        return -1
    with contextlib.suppress(OSError):
        path = f"{order['watched']['folder']}/{LOCK}"
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with contextlib.suppress(OSError):  # a file system without locks
            flock(lock, LOCK_EX | LOCK_NB)
        return lock
    return -1


def _end(watch: CommandWatcher | None, lock: int) -> None:
    """Record the end of all processes of the command."""
    if watch:
        watch.end()
    if lock >= 0:
        with contextlib.suppress(OSError):
            flock(lock, LOCK_UN)


def _watch_over(order: Order, left: int, link: socket.socket) -> CommandWatcher | None:
    """Return the watch that records the changes of the command; None without an order for one."""
    if not order["watched"]:
        return None
    made: CommandWatcher = import_module(order["watched"]["module"]).CommandWatch(
        order["watched"],
        begun=left if order["nested"] else -1,
        ask=partial(_ask, link),
    )
    return made


def rehearse() -> None:
    """Use, without any effect, most of what `keep` uses, so that it is faster afterwards.

    A forked process shares its memory until it writes to it, and Python writes to every object it
    uses. A command would wait longer for the copies than for its start, so a keeper makes them
    while it waits for its order.
    """
    order: Order = json.loads(json.dumps({"files": [[0, ""]], "rest": -1}))
    link, other_end = socket.socketpair()
    with link, other_end:
        poll = select.poll()
        poll.register(link, select.POLLIN)
        poll.poll(0)
        kill_strangers(os.getpid())
        _tell(link, {"over": bool(order)})
        os.close(fcntl(link, F_DUPFD_CLOEXEC, _above_all(order)))


def _watch(
    child: int,
    signals: int,
    link: socket.socket,
    left: int,
    look: Callable[[int], bool],
    end: Callable[[], None],
    watch: CommandWatcher | None,
) -> bool:
    """Watch the command until the session closes the link.

    If the command leaves no process, one message tells its end and that all is over. The command
    stays a zombie, so that the session never signals another process that has its id.

    *look* returns whether the ended command has left processes, which it may kill; *end* records
    that all is over.

    Returns:
        Whether the session knows that all is over.
    """
    poll = select.poll()
    for source in (link.fileno(), signals):
        poll.register(source, select.POLLIN)
    has_ended = has_left = False
    while True:
        limits = [watch.look()] if watch and watch.is_on else []
        limits += [_LOOK_AGAIN_S] if has_left else []
        ready = dict(poll.poll(min(limits) * 1000 if limits else None))
        if link.fileno() in ready and not (watch and _is_answered(link, watch)):
            return False
        if signals in ready:
            drain(signals)  # first: a child that ends after this gives a new signal
        if not has_ended and (code := status(child)) is not None:
            has_ended = True
            report = {"status": code, "left": drain(left).decode(errors="replace")}
            has_left = look(child)
            if _IS_LINUX and not has_left:  # other systems do not list our children
                end()
                _tell(link, {**report, "over": True})
                with contextlib.suppress(OSError):
                    link.recv(1)
                return True
            _tell(link, report)
        elif has_left:
            has_left = look(child)


def _ask(link: socket.socket, question: dict[str, Any]) -> None:
    _tell(link, {"asks": question})


def _is_answered(link: socket.socket, watch: CommandWatcher) -> bool:
    """Pass an answer of the session on; return False if it is none."""
    word = b""
    with contextlib.suppress(OSError):
        word = link.recv(1, socket.MSG_PEEK)
    if word not in (GO_ON, REFUSE):
        return False
    link.recv(1)
    watch.answer(goes_on=word == GO_ON)
    return True


def _spawn(order: Order, outputs: Outputs, left: int, rest: int) -> int:
    """Start a program that builds a sandbox and that ends when we die; return its process id.

    A fork would copy memory and run Python, which takes longer than building the sandbox.

    Raises:
        OSError: It cannot be started.
    """
    _volunteer_for_memory_shortage()
    os.chdir(order["cwd"])
    nothing = os.open(os.devnull, os.O_RDONLY)
    least = _above_all(order)
    inherited = [(0, nothing), (1, outputs[0]), (2, outputs[1]), (LEFT_DESCRIPTOR, left)]
    if rest >= 0:
        inherited.append((order["rest"], rest))
    high = [(number, fcntl(each, F_DUPFD_CLOEXEC, least)) for number, each in inherited]
    child = os.posix_spawn(
        order["arguments"][0],
        order["arguments"],
        order["environment"],
        file_actions=[
            *((os.POSIX_SPAWN_DUP2, each, number) for number, each in high),
            *((os.POSIX_SPAWN_OPEN, fd, path, os.O_RDONLY, 0) for fd, path in order["files"]),
            *((os.POSIX_SPAWN_CLOSE, each) for _number, each in high),
        ],
        setsid=True,
        setsigdef=_IGNORED,
    )
    for _number, each in high:
        os.close(each)  # the reader of the output waits until all writers have closed it
    return child


def _forked(order: Order, outputs: Outputs, left: int) -> int:
    """Fork a command that restricts itself and that ends when we die; return its process id.

    Raises:
        OSError: It cannot be started.
    """
    failed, failed_writing = os.pipe()
    keeper = os.getpid()
    child = os.fork()
    if child == 0:
        _become(order, keeper, outputs, left, failed_writing)
    os.close(failed_writing)
    if failure := os.read(failed, _LEFT_BYTES_MAX):
        os.waitpid(child, 0)
        raise OSError(failure.decode(errors="replace"))
    return child


def _above_all(order: Order) -> int:
    """Return a descriptor above the descriptors that the command requests.

    Not a fixed high one: with `ulimit -n 48` there is no 64.
    """
    files: list[tuple[int, str]] = order["files"]
    rest: int = order["rest"]
    return max([LEFT_DESCRIPTOR, rest, *(number for number, _path in files)]) + 1


def _volunteer_for_memory_shortage() -> None:
    """Have the kernel kill us and our children before other processes if memory runs out."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "wb", 0) as score:  # noqa: PTH123
        score.write(b"1000")


def _become(order: Order, keeper: int, outputs: Outputs, left: int, failed: int) -> NoReturn:
    """Turn this fresh process into the command; report a failure through *failed*."""
    try:
        os.setsid()
        die_with_parent(keeper)
        restore_signals()
        files = [(number, os.open(path, os.O_RDONLY)) for number, path in order["files"]]
        nothing = os.open(os.devnull, os.O_RDONLY)
        standard = [(0, nothing), (1, outputs[0]), (2, outputs[1]), *files]
        if order["nested"]:
            standard.append((LEFT_DESCRIPTOR, left))
        # Move all descriptors up first, since one may have the number that another one needs.
        every = (*standard, (-1, failed))
        least = _above_all(order)
        high = [(number, fcntl(found, F_DUPFD_CLOEXEC, least)) for number, found in every]
        for number, found in high[:-1]:
            os.dup2(found, number)
        failed = high[-1][1]
        if not order["spares"]:
            _volunteer_for_memory_shortage()  # before the restriction forbids it
        os.chdir(order["cwd"])
        if order["restriction"]:
            import_module(order["restriction"]["module"]).restrict_thread(order["restriction"])
            # Dropping capabilities has cleared this setting.
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.execve(order["arguments"][0], order["arguments"], order["environment"])
    except BaseException as error:
        os.write(failed, str(error).encode(errors="replace"))
    finally:
        os._exit(127)


def child_signals() -> int:
    """Return a descriptor that becomes readable when a child has ended."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    # The handler does nothing: the signal arrives through the pipe.
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    return reading


def drain(descriptor: int) -> bytes:
    """Return the bytes that can be read without waiting."""
    try:
        return os.read(descriptor, _LEFT_BYTES_MAX)
    except BlockingIOError:
        return b""


def _tell(link: socket.socket, message: dict[str, Any]) -> None:
    # The session may have ended.
    with contextlib.suppress(OSError):
        link.sendall(json.dumps(message).encode() + b"\n")


def adopt_orphans() -> None:
    """Become the parent of every process that a descendant leaves behind."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int) -> None:
    """Let the kernel kill this process, and what it becomes, when our *parent* dies."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(128 + signal.SIGKILL)


def restore_signals() -> None:
    """Undo what Python ignores: ignored signals stay ignored across exec."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_DFL)


def _prctl(option: int, value: int) -> None:
    if _IS_LINUX:
        _LIBC.prctl(option, value, 0, 0, 0)
