"""Reduce sets of paths, since each path costs a mount per command."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from pathlib import Path

from agent_cli.system.paths import real_path

# Bubblewrap needs half a millisecond for each, and longer for each with many.
MOUNTS_MAX = 60
_MANY = 1_000  # `late_masks` needs a tenth of a millisecond for each
TEMPORARY = (
    *("/tmp", "/var/tmp", "/dev/shm"),
    *("/private/tmp", "/var/folders", "/private/var/folders"),  # of macOS
)
"""Folders for what nobody keeps; of some, a sandbox may have its own, without what lies there."""


def fewer(
    paths: Sequence[Path],
    *,
    keep: Sequence[Path],
    count: int = MOUNTS_MAX,
    many: Callable[[], bool] = lambda: False,
) -> tuple[Path, ...]:
    """Return *paths*, with files replaced by their directories while there are more than *count*.

    A directory that contains one of *keep* is never used. Where there are more, *many* is asked
    whether a thousand may stay.
    """
    left = dict.fromkeys(paths)
    if len(left) > count and many():
        count = _MANY
    if len(left) <= count:
        return tuple(left)
    never = {folder for path in keep for folder in (path, *path.parents)}
    inside: dict[Path, set[Path]] = {}
    below: dict[Path, set[Path]] = {}  # by each folder above them, since there may be thousands
    fullest: list[tuple[int, int, Path]] = []
    for number, path in enumerate(left):
        _put(path, number, inside, below, fullest)
    while len(left) > count and fullest:
        most, number, folder = heappop(fullest)
        if folder in never or most == -1 or -most != len(inside.get(folder, ())):
            continue
        for each in {folder, *below.get(folder, ())}:
            for path in inside.pop(each, ()):
                del left[path]
        left[folder] = None
        _put(folder, number, inside, below, fullest)
    return tuple(left)


def _put(
    path: Path,
    number: int,
    inside: dict[Path, set[Path]],
    below: dict[Path, set[Path]],
    fullest: list[tuple[int, int, Path]],
) -> None:
    """Add *path* to what is *inside* its folder, and that to what is *below* those above it."""
    folder = path.parent
    if folder not in inside:
        inside[folder] = set()
        for above in folder.parents:
            below.setdefault(above, set()).add(folder)
    inside[folder].add(path)
    heappush(fullest, (-len(inside[folder]), number, folder))


def holds(directory: Path, paths: Sequence[Path]) -> bool:
    """Return whether any of *paths* is *directory* or inside it."""
    return any(is_inside(path, directory) for path in paths)


def is_inside(path: Path, directory: Path) -> bool:
    """Return whether the real *path* is the real *directory* or inside it.

    As `is_relative_to`, which takes six times as long: a command asks this a hundred times.
    """
    inner, outer = str(path), str(directory)
    return inner == outer or inner.startswith(outer if outer == "/" else f"{outer}/")


def is_in_one(path: Path, directories: Iterable[Path]) -> bool:
    """Return whether the real *path* is one of the real *directories*, or inside one."""
    return any(is_inside(path, directory) for directory in directories)


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
