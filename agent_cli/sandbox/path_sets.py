"""Reduce sets of paths, since each path costs a mount per command."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

# Each mount costs half a millisecond per command; beyond this, whole directories are used.
MOUNTS_MAX = 60


def fewer(paths: Sequence[Path], *, keep: Sequence[Path]) -> tuple[Path, ...]:
    """Return *paths*, with files replaced by their directories while there are too many.

    A directory that contains one of *keep* is never used.
    """
    left = list(paths)
    while len(left) > MOUNTS_MAX:
        counts = Counter(path.parent for path in left if not holds(path.parent, keep))
        fullest = max(counts, key=lambda parent: counts[parent], default=None)
        if fullest is None or counts[fullest] == 1:
            break
        left = [path for path in left if not path.is_relative_to(fullest)]
        left.append(fullest)
    return tuple(left)


def holds(directory: Path, paths: Sequence[Path]) -> bool:
    """Return whether any of *paths* is *directory* or inside it."""
    return any(path.is_relative_to(directory) for path in paths)


def outermost(paths: Sequence[Path]) -> list[Path]:
    """Return *paths* without every path that lies inside another."""
    known = set(paths)
    return [path for path in paths if known.isdisjoint(path.parents)]


def unique(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Return each of *paths* once, in order."""
    return tuple(dict.fromkeys(paths))
