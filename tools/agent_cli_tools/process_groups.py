"""Who is in a process group."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Member:
    """A living process: its id, its parent's, and the name of its program."""

    pid: int
    parent: int
    name: str


def group_members(group: int) -> list[Member]:
    """Return the processes of the process group *group* that have not ended."""
    return list(_from_proc(group) if (_PROC / "self/stat").exists() else _from_ps(group))


def _from_proc(group: int) -> Iterator[Member]:
    for pid in (int(name) for name in os.listdir(_PROC) if name.isdigit()):  # noqa: PTH208 - names
        try:
            # Asking for the group costs a fraction of opening a file, and most are not in it.
            if os.getpgid(pid) != group:
                continue
            stat = (_PROC / str(pid) / "stat").read_text(errors="replace")
        except OSError:
            continue  # It ended while we looked.
        # "PID (NAME) STATE PARENT ...", and a name may hold blanks and parentheses.
        before, _, after = stat.rpartition(")")
        state, parent = after.split()[:2]
        if state != "Z":
            yield Member(pid, int(parent), before.partition("(")[2])


def _from_ps(group: int) -> Iterator[Member]:
    """Ask ps, where there is no /proc (macOS, BSD)."""
    command = ["/bin/ps", "-A", "-o", "pid=,ppid=,pgid=,state=,comm="]
    listing = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    for line in listing.splitlines():
        pid, parent, its_group, state, name = line.split(None, 4)
        if int(its_group) == group and not state.startswith("Z"):
            yield Member(int(pid), int(parent), Path(name).name)
