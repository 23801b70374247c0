"""Changes of files, and the combination of several changes of one file."""

from collections.abc import Iterable
from pathlib import Path

from agent_cli.system.records import dataclass


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one file. `before` and `after` are digests; None is no file.

    Attributes:
        mode: Its permission bits before; None if there was no file.
        made: Directories that were made for it, the outermost first.
        at_ns: When, in nanoseconds of the clock on the wall; 0 in older records.
    """

    path: Path
    before: str | None
    after: str | None
    mode: int | None = None
    made: tuple[Path, ...] = ()
    at_ns: int = 0


@dataclass(frozen=True, slots=True)
class ChangeSpan:
    """All changes of a file, from the first to the last; digests, None is no file.

    Attributes:
        mode: Its permission bits at first.
        made: Directories that were made for it, the outermost first.
        unbroken: Whether each change began with the previous result, without changes by others.
    """

    path: Path
    before: str | None
    after: str | None
    mode: int | None
    made: tuple[Path, ...]
    unbroken: bool


def spans(changes: Iterable[Change]) -> list[ChangeSpan]:
    """Return one span for each file, in the order of their first changes."""
    found: dict[Path, ChangeSpan] = {}
    for change in changes:
        first = found.get(change.path)
        found[change.path] = ChangeSpan(
            change.path,
            first.before if first else change.before,
            change.after,
            first.mode if first else change.mode,
            (*(first.made if first else ()), *change.made),
            first is None or (first.unbroken and first.after == change.before),
        )
    return [*found.values()]
