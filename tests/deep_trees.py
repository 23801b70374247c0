"""Trees of more levels than functions may call themselves."""

import inspect
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

LEVELS = 250


@contextmanager
def little_recursion() -> Generator[None]:
    """Allow fewer calls within each other than `LEVELS`, because deeper trees take long to make."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + LEVELS - 50)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def deep_tree(top: Path, name: str) -> None:
    """Create folders called *name* in each other, each with a link to the folder above *top*."""
    place = os.open(top, os.O_RDONLY)
    for _ in range(LEVELS):
        os.symlink(top.parent, "link", dir_fd=place)
        os.mkdir(name, dir_fd=place)
        below = os.open(name, os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = below
    os.close(place)
