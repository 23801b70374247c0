"""Keep one program that has the terminal, so that it does not outlive the process that started it.

    python -c ... PARENT_PID GRACE_S COMMAND [ARGUMENT...]

Unlike other commands, the program stays in the caller's session and process group, so that the
terminal's keys and job control reach it. The program and the processes it started are hung up when
the caller ends, however it is killed, on SIGTERM, and when the terminal is closed; processes that
do not end within GRACE_S are killed. Two kinds of processes live on: those that have left the
session, such as the server of a terminal multiplexer, and those that the program leaves when it
ends by itself.

Started by `launching.on_terminal`. Imports little: see `launcher`.
"""

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from typing import NoReturn

from agent_cli.system.keeper import (
    adopt_orphans,
    child_signals,
    die_with_parent,
    drain,
    restore_signals,
)
from agent_cli.system.orphans import descendants, status

_IS_LINUX = sys.platform == "linux"
_ENDING = frozenset({signal.SIGTERM, signal.SIGHUP})
_HUNG_UP = 128 + signal.SIGHUP
_KILL_LIMIT_S = 1.0
_POLL_MS = 200
_LOOK_EVERY_S = 0.01


def main() -> NoReturn:
    """Run the command in `sys.argv`, and exit with its code as a shell counts it."""
    sys.exit(keep(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]))


def keep(parent: int, grace_s: float, command: Sequence[str]) -> int:
    """Run *command* until it ends, or *parent* does; return its exit code."""
    signals = child_signals()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # The terminal's are for the command. Not ignored: it would inherit that.
        signal.signal(number, lambda _number, _frame: None)
    adopt_orphans()
    keeper = os.getpid()
    child = os.fork()
    if child == 0:
        _become(command, keeper)
    poll = select.poll()
    poll.register(signals, select.POLLIN)
    limit_ms = _watch_parent(parent, poll)
    while True:
        received = drain(signals)  # first: a child that ends after this gives a new signal
        code = status(child)
        is_over = os.getppid() != parent or not _ENDING.isdisjoint(received)
        if is_over or code == _HUNG_UP:
            _hang_up(child, grace_s, has_ended=code is not None)
            return _HUNG_UP if code is None else code
        if code is not None:
            return code
        poll.poll(limit_ms)


def _become(command: Sequence[str], keeper: int) -> NoReturn:
    try:
        die_with_parent(keeper)
        restore_signals()
        os.execvp(command[0], [*command])
    except OSError as error:
        os.write(2, f"cannot start {command[0]}: {error.strerror}\n".encode(errors="replace"))
    finally:
        os._exit(127)


def _watch_parent(parent: int, poll: select.poll) -> int | None:
    """Let *poll* return when *parent* ends; return the time after which to look, in ms."""
    try:
        # Not PR_SET_PDEATHSIG: it comes when the thread that started us ends.
        poll.register(os.pidfd_open(parent), select.POLLIN)
    except (AttributeError, OSError):  # an old kernel, or not Linux
        return _POLL_MS
    return None


def _hang_up(child: int, grace_s: float, *, has_ended: bool) -> None:
    """End *child* and the processes it started in this session."""
    kill_at_s = time.monotonic() + grace_s
    _signal(child, signal.SIGHUP, signal.SIGCONT)
    while True:
        if _IS_LINUX or not has_ended:
            has_ended = status(child) is not None
        if has_ended and not _started(child):
            return
        if time.monotonic() > kill_at_s + _KILL_LIMIT_S:
            return  # processes started by sudo cannot be killed
        if time.monotonic() > kill_at_s:
            _signal(child, signal.SIGKILL)
        time.sleep(_LOOK_EVERY_S)


def _signal(child: int, *numbers: signal.Signals) -> None:
    for pid in (child, *_started(child)):
        for number in numbers:
            with contextlib.suppress(OSError):
                os.kill(pid, number)


def _started(child: int) -> list[int]:
    """Return the living processes in our session that *child* has started; reap those it left."""
    session, others = os.getsid(0), descendants() - {child}
    return [pid for pid in others if not _is_reaped(pid) and _session_of(pid) == session]


def _is_reaped(pid: int) -> bool:
    with contextlib.suppress(ChildProcessError):  # of a process that lives, which will reap it
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    return False


def _session_of(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0
