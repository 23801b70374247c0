"""Find sockets of other programs, through which a command could make them act."""

import os
import stat
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path


def socket_covers() -> Iterator[Path]:
    """Yield what to hide so that no command reaches a socket: each, or a folder above it."""
    for path in host_sockets():
        if found := cover(path):
            yield found


def host_sockets() -> list[Path]:
    """Return the sockets other programs listen at: a way to make them act on our behalf.

    Those that other users keep to themselves are out of the reach of commands too.
    """
    try:
        lines = Path("/proc/net/unix").read_text(errors="surrogateescape").splitlines()[1:]
    except OSError:
        return []
    # Seven columns, and an eighth for those that have a name; "@" begins one without a file.
    names = {column for line in lines for column in line.split(None, 7)[7:]}
    return sorted(
        real
        for name in names
        if name[0] == "/" and _is_socket(real := Path(os.path.realpath(name)))
    )


def cover(path: Path) -> Path | None:
    """Return the outermost of *path* and its folders that no other user can take away.

    What another user can remove while a sandbox is built would keep it from being built, so a
    folder of that user is hidden as a whole. None if there is nothing that stays.
    """
    for folder, child in pairwise((*reversed(path.parents), path)):
        try:
            state, inner = folder.stat(), child.stat()
        except OSError:
            return None  # Not for us, nor for a command.
        if not _is_trusted(state):
            return folder
        others_write = state.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if others_write and not (state.st_mode & stat.S_ISVTX and _is_trusted(inner)):
            return folder
    return path


def _is_trusted(state: os.stat_result) -> bool:
    return state.st_uid in (0, os.geteuid())


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except OSError:
        return False
