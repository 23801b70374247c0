"""Sets of paths, made as small as what is to be done with each of them requires."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

# Each costs half a millisecond a command; beyond, whole directories are hidden.
MOUNTS_MAX = 60


def fewer(paths: Sequence[Path], *, keep: Sequence[Path]) -> tuple[Path, ...]:
    """Return *paths*, directories in place of the files in them while there are too many.

    Never a directory that holds one of *keep*.
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
    """Return whether one of *paths* is *directory* or lies in it."""
    return any(path.is_relative_to(directory) for path in paths)


def outermost(paths: Sequence[Path]) -> list[Path]:
    """Return *paths* without those inside another of them."""
    known = set(paths)
    return [path for path in paths if known.isdisjoint(path.parents)]


def unique(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Return each of *paths* once, in order."""
    return tuple(dict.fromkeys(paths))
