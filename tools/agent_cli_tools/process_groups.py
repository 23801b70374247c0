"""Who is in a process group."""

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
    found = _from_proc() if (_PROC / "self/stat").exists() else _from_ps()
    return [member for member, its_group, state in found if its_group == group and state != "Z"]


def _from_proc() -> Iterator[tuple[Member, int, str]]:
    for folder in _PROC.glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text(errors="replace")
        except OSError:
            continue  # It ended while we looked.
        # "PID (NAME) STATE PARENT GROUP ...", and a name may hold blanks and parentheses.
        before, _, after = stat.rpartition(")")
        state, parent, its_group = after.split()[:3]
        name = before.partition("(")[2]
        yield Member(int(folder.name), int(parent), name), int(its_group), state


def _from_ps() -> Iterator[tuple[Member, int, str]]:
    """Ask ps, where there is no /proc (macOS, BSD)."""
    command = ["/bin/ps", "-A", "-o", "pid=,ppid=,pgid=,state=,comm="]
    listing = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    for line in listing.splitlines():
        pid, parent, its_group, state, name = line.split(None, 4)
        yield Member(int(pid), int(parent), Path(name).name), int(its_group), state[0]
