"""Find and kill what a supervisor left running because it was itself killed (see supervisor)."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

_LIMIT_S = 1.0
_PAUSE_S = 0.002


def kill_left(session: int, mark: str) -> None:
    """Kill the processes of a supervisor that is gone (Linux; elsewhere do nothing).

    Args:
        session: The session it was the leader of.
        mark: NAME=value in the environment of its command, which also finds what left the session.
    """
    deadline = time.monotonic() + _LIMIT_S
    while time.monotonic() < deadline and any([*map(_kill, _left(session, mark))]):
        time.sleep(_PAUSE_S)


def _left(session: int, mark: str) -> Iterator[int]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            # The name, in brackets, may hold anything; then: state, parent, group, session.
            fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
            if fields[0] in (b"Z", b"X") or int(folder.name) == os.getpid():
                continue
            if int(fields[3]) == session or mark in _environment(folder):
                yield int(folder.name)
        except OSError:
            continue


def _environment(folder: Path) -> list[str]:
    return (folder / "environ").read_bytes().decode(errors="replace").split("\0")


def _kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        return False
    return True
