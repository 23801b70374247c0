"""The processes that a program has started, and those of them that it has left running."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

MARK: Final = "KIN_OF_TEST"
"""A variable: what the program starts inherits it, except for what is started without any."""


class Kin:
    """All that descends from one process, as far as it was looked at, or has its mark.

    A process that has lost its parent is known by the variable; one without variables, as our
    launcher, by the looks taken while its parent lived.
    """

    def __init__(self, pid: int, mark: str) -> None:
        self._pid = pid
        self._mark = f"{MARK}={mark}".encode()
        self._known: dict[int, str] = {}

    def look(self) -> None:
        """Note the descendants of the process and of all noted before."""
        waiting = [self._pid, *self._known]
        while waiting:
            for child in _children(waiting.pop()):
                if child not in self._known and (born := _born(child)):
                    self._known[child] = born
                    waiting.append(child)

    def left(self) -> list[str]:
        """Return the processes that run, the program itself included: their ids and commands."""
        known = [pid for pid, born in self._known.items() if _born(pid) == born]
        marked = [int(each.parent.name) for each in _environments() if self._has(each)]
        return [f"{pid}: {_command(pid)}" for pid in sorted({*known, *marked}) if _born(pid)]

    def _has(self, environment: Path) -> bool:
        with suppress(OSError):
            return self._mark in environment.read_bytes().split(b"\0")
        return False


def children_of(pid: int) -> set[int]:
    """Return the children of a process, those of all its threads."""
    return {*_children(pid)}


def _environments() -> Iterator[Path]:
    return Path("/proc").glob("[0-9]*/environ")


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                found += map(int, (thread / "children").read_text().split())
    return found


def _born(pid: int) -> str:
    """Return when a process was started, in ticks of the clock; "" if it runs no more."""
    with suppress(OSError):
        # "pid (name) state ...": the name may contain anything.
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if state in "ZX" else rest[18]
    return ""


def _command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()[:200]
    return "ended"
