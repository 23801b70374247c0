"""Kill the processes a command left when both processes that watched it were killed.

A supervisor ends all that its command has started. If both of its processes get SIGKILL together,
the kernel ends the command, but nothing tells the command's children. So the environment of a
command has a mark that names the program that started it. Children inherit the mark, whatever
session or group they are in, so it finds them while the program lives (`kill_left`), and when the
next program starts (`kill_abandoned`).

Reads `/proc`, so it needs Linux; elsewhere it finds nothing. A process that has emptied its
environment is found only in the session of its supervisor.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Final, TypeAlias

_VARIABLE: Final = "STARTED_BY_AGENT_CLI"
"""Not `AGENT_CLI_...`, which is read as a setting."""

_SWEEP_S: Final = 1.0
_serials: Final = count(1)
_Meant: TypeAlias = Callable[[int, str], bool]


def marked(environment: Mapping[str, str]) -> dict[str, str]:
    """Return *environment* with a mark of its own for one command of this process."""
    return {**environment, _VARIABLE: f"{_owner(os.getpid())}:{next(_serials)}"}


def kill_left(environment: Mapping[str, str], supervisor: int) -> None:
    """Kill all processes that the command with this marked *environment* has left.

    Args:
        environment: What `marked` returned for it.
        supervisor: Its supervisor, which led a session and has been waited for.
    """
    mark = environment[_VARIABLE]
    # Its number cannot be given to a new process while a process of its session lives.
    is_gone = not Path(f"/proc/{supervisor}").exists()

    def is_left(pid: int, found: str) -> bool:
        return found == mark or (is_gone and _session_of(pid) == supervisor)

    _kill_all(is_left)


def kill_abandoned() -> None:
    """Kill the processes of commands whose program has ended, and their supervisors with it."""
    ours = os.environ.get(_VARIABLE, "")
    if namespace := _namespace():
        _kill_all(
            lambda _pid, mark: (
                mark.startswith(f"{namespace}:") and mark != ours and not _is_owned(mark)
            )
        )


def _kill_all(is_meant: _Meant) -> None:
    """Kill until a look at all processes finds none that is meant: one may start another."""
    deadline_s = time.monotonic() + _SWEEP_S
    while _kill_once(is_meant) and time.monotonic() < deadline_s:
        time.sleep(0.002)


def _kill_once(is_meant: _Meant) -> bool:
    """Kill the processes that are meant; return whether any still ran."""
    found = False
    for pid in _others():
        # Opened first: the number may be given to another process after the look.
        with contextlib.suppress(OSError, AttributeError), _opened(pid) as process:
            if is_meant(pid, _mark_of(pid)) and _is_running(pid):
                found = True
                signal.pidfd_send_signal(process, signal.SIGKILL)
    return found


@contextlib.contextmanager
def _opened(pid: int) -> Generator[int]:
    process = os.pidfd_open(pid)
    try:
        yield process
    finally:
        os.close(process)


def _others() -> Iterator[int]:
    with contextlib.suppress(OSError):
        names = filter(str.isdigit, os.listdir("/proc"))  # noqa: PTH208 - a name each, no paths
        yield from (pid for pid in map(int, names) if pid != os.getpid())


def _mark_of(pid: int) -> str:
    """Return the mark of a process; "" without one, and for processes of other users."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return ""
    start = f"{_VARIABLE}=".encode()
    found = next((each for each in variables if each.startswith(start)), start)
    return found.removeprefix(start).decode(errors="replace")


def _is_owned(mark: str) -> bool:
    """Return whether the program that a mark names still runs."""
    owner, _, _serial = mark.rpartition(":")
    number = owner.split(":")[1] if owner.count(":") == 2 else ""
    return number.isdigit() and _is_running(int(number)) and _owner(int(number)) == owner


def _owner(pid: int) -> str:
    """Return a name of a process, unique until this machine restarts, containers included."""
    return f"{_namespace()}:{pid}:{_stat(pid)[19] if _stat(pid) else ''}"


def _namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").stat().st_ino)
    except OSError:
        return ""


def _is_running(pid: int) -> bool:
    stat = _stat(pid)
    return bool(stat) and stat[0] not in ("Z", "X")


def _session_of(pid: int) -> int:
    stat = _stat(pid)
    return int(stat[3]) if stat else 0


def _stat(pid: int) -> list[str]:
    """Return the fields of a process from its state on; none if it does not exist."""
    try:
        # The name, in parentheses, may have any characters.
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []
