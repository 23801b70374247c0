"""Reduce sets of paths, since each path costs a mount per command."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from agent_cli.system.paths import real_path

# Each mount costs half a millisecond per command; beyond this, whole directories are used.
MOUNTS_MAX = 60
TEMPORARY = (
    *("/tmp", "/var/tmp", "/dev/shm"),
    *("/private/tmp", "/var/folders", "/private/var/folders"),  # of macOS
)
"""Folders for what nobody keeps; of some, a sandbox may have its own, without what lies there."""


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
    return any(is_inside(path, directory) for path in paths)


def is_inside(path: Path, directory: Path) -> bool:
    """Return whether the real *path* is the real *directory* or inside it.

    As `is_relative_to`, which takes six times as long: a command asks this a hundred times.
    """
    inner, outer = str(path), str(directory)
    return inner == outer or inner.startswith(outer if outer == "/" else f"{outer}/")


def around_in_temporary(folders: Sequence[Path], roots: Sequence[Path]) -> tuple[Path, ...]:
    """Return the *folders* above *roots* that a sandbox with its own `/tmp` would not show.

    In a subfolder of a repository there, git would take all files above it for deleted.
    """
    around = [folder for folder in map(real_path, folders) if holds(folder, roots)]
    return tuple(
        x for x in around if any(map(x.is_relative_to, TEMPORARY)) and str(x) not in TEMPORARY
    )


def outermost(paths: Sequence[Path]) -> list[Path]:
    """Return *paths* without every path that lies inside another."""
    known = set(map(str, paths))
    return [path for path in paths if known.isdisjoint(_above(str(path)))]


def unique(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Return each of *paths* once, in order."""
    return tuple(dict.fromkeys(paths))


def _above(path: str) -> Iterator[str]:
    """Yield the folders above the absolute *path*, the nearest first."""
    end = path.rfind("/")
    while end > 0:
        yield path[:end]
        end = path.rfind("/", 0, end)
    if path != "/":
        yield "/"
