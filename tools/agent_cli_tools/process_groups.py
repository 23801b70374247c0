"""List the members of a process group, and the descendants of a process."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from agent_cli.system.records import dataclass

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Member:
    """A living process: its id, its parent's, and the name of its program."""

    pid: int
    parent: int
    name: str


def group_members(group: int) -> list[Member]:
    """Return the living processes of the process group *group*."""
    return list(_from_proc(group) if (_PROC / "self/stat").exists() else _from_ps(group))


def descendants(pid: int, *, below: int) -> list[Member]:
    """Return the living descendants of *pid* from generation *below* on.

    Needs /proc.
    """
    living = [member for each in _pids() if (member := _member(each))]
    generation = {pid}
    for _ in range(below):
        generation = {member.pid for member in living if member.parent in generation}
    found = generation
    while generation:
        generation = {member.pid for member in living if member.parent in generation}
        found = found | generation
    return [member for member in living if member.pid in found]


def threads_of_user() -> int:
    """Return the number of this user's threads, as the kernel counts them; 0 without /proc."""
    count = 0
    for pid in _pids() if _PROC.exists() else ():
        # Not with Path: there may be thousands, and this runs before each command.
        with contextlib.suppress(OSError):  # It ended while we looked.
            tasks = os.stat(f"/proc/{pid}/task")  # noqa: PTH116
            if tasks.st_uid == os.getuid():
                count += tasks.st_nlink - 2
    return count


def _from_proc(group: int) -> Iterator[Member]:
    for pid in _pids():
        try:
            # Asking for the group is much cheaper than opening a file, and most are not in it.
            if os.getpgid(pid) != group:
                continue
        except OSError:
            continue  # It ended while we looked.
        if member := _member(pid):
            yield member


def _pids() -> Iterator[int]:
    return (int(name) for name in os.listdir(_PROC) if name.isdigit())  # noqa: PTH208 - names


def _member(pid: int) -> Member | None:
    """Return the process, or None if it has ended."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # "PID (NAME) STATE PARENT ...", where a name may contain blanks and parentheses.
    before, _, after = stat.rpartition(")")
    state, parent = after.split()[:2]
    return Member(pid, int(parent), before.partition("(")[2]) if state != "Z" else None


def _from_ps(group: int) -> Iterator[Member]:
    """List processes with ps, on systems without /proc (macOS, BSD)."""
    command = ["/bin/ps", "-A", "-o", "pid=,ppid=,pgid=,state=,comm="]
    listing = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    for line in listing.splitlines():
        pid, parent, its_group, state, name = line.split(None, 4)
        if int(its_group) == group and not state.startswith("Z"):
            yield Member(int(pid), int(parent), Path(name).name)
