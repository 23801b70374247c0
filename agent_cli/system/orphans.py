"""Find and kill the processes that a command leaves behind; for their subreaper.

Imports little: see `launcher`.
"""

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence

_SWEEP_S = 1.0
_POLL_S = 0.001
_IS_LINUX = sys.platform == "linux"


def status(child: int) -> int | None:
    """Return the exit code of *child* as a shell counts it; None while it runs. Reap all others.

    The child stays a zombie, so that its process id is not reused while signals are sent to it.
    """
    if not _IS_LINUX:
        pid, status = os.waitpid(child, os.WNOHANG)
        return None if pid == 0 else shell_code(os.waitstatus_to_exitcode(status))
    while state := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | os.WNOHANG):
        if state.si_pid == child:
            return state.si_status if state.si_code == os.CLD_EXITED else 128 + state.si_status
        os.waitpid(state.si_pid, 0)
    return None


def shell_code(code: int) -> int:
    """Return the exit code that a shell reports for *code*, which is -N after signal N: 128 + N."""
    return code if code >= 0 else 128 - code


def kill_strangers(group: int) -> bool:
    """Kill our children outside *group*, and theirs; return whether others in it are left."""
    left = kill_children(lambda pid: pid != group and _group_of(pid) != group)
    return any(pid != group for pid in left)


def has_others(child: int) -> bool:
    """Return whether we have other children than *child*."""
    return any(pid != child for pid in _children())


def kill_children(is_meant: Callable[[int], bool]) -> Sequence[int]:
    """Kill matching children, and the orphans that this makes ours; return those that are left."""
    deadline = time.monotonic() + _SWEEP_S
    while True:
        found = [*_children()]
        meant = [pid for pid in found if is_meant(pid)]
        if not meant:
            return found
        for pid in meant:
            # Processes started by sudo cannot be killed.
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        left = [pid for pid in meant if not _is_collected(pid)]
        if left:
            if time.monotonic() > deadline:
                return found
            _wait_for_end(left[0], deadline - time.monotonic())


def descendants() -> set[int]:
    """Return our living descendants; none without /proc. Children must be reaped before."""
    found: set[int] = set()
    new = {os.getpid()}
    while new:
        new = {child for parent in new for child in children_of(parent)} - found
        found |= new
    return found


def _is_collected(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def _wait_for_end(pid: int, limit_s: float) -> None:
    """Wait until our child *pid* has ended, at most *limit_s*."""
    try:
        descriptor = os.pidfd_open(pid)
    except (AttributeError, OSError):  # an old kernel, or not Linux
        time.sleep(_POLL_S)
        return
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.poll(max(limit_s, 0) * 1000)
    finally:
        os.close(descriptor)


def _children() -> Iterator[int]:
    """Yield the process ids of our children, ended ones too; none without /proc."""
    us = os.getpid()
    # No pathlib: its import would take a quarter of this program's start-up time.
    try:
        # Each thread has a list of its own: a watched command is the child of another one.
        for thread in os.listdir(f"/proc/{us}/task"):  # noqa: PTH208
            # Unbuffered, which takes half of the time: each command waits for three.
            with open(f"/proc/{us}/task/{thread}/children", "rb", 0) as listed:  # noqa: PTH123
                yield from map(int, listed.read().split())
    except OSError:  # Some kernels have no such list.
        yield from children_of(us)


def children_of(parent: int) -> Iterator[int]:
    """Yield the process ids of the children of *parent*; none without /proc."""
    names = os.listdir("/proc") if os.path.isdir("/proc") else []  # noqa: PTH112, PTH208
    for pid in filter(str.isdigit, names):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as stat:  # noqa: PTH123
            # The name, in parentheses, may have any characters; the parent is two fields on.
            if int(stat.read().rpartition(b")")[2].split()[1]) == parent:
                yield int(pid)


def _group_of(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except OSError:
        return 0
