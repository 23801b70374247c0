"""Find the sockets of other programs, through which a command could make them act."""

import os
import stat
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from agent_cli.sandbox.path_sets import holds


def socket_covers(writable: Sequence[Path]) -> Iterator[Path]:
    """Yield the paths to hide so that no command reaches a socket: each, or a folder above it.

    Never a folder above those that are *writable*, although another user may remove the socket.
    """
    for path in host_sockets():
        if found := cover(path):
            yield path if holds(found, writable) else found


def host_sockets() -> list[Path]:
    """Return the sockets on which other programs listen.

    The private sockets of other users are left out: commands cannot reach them either.
    """
    try:
        lines = Path("/proc/net/unix").read_text(errors="surrogateescape").splitlines()[1:]
    except OSError:
        return []
    # Seven columns, and an eighth for a socket with a name; "@" begins a name without a file.
    names = {column for line in lines for column in line.split(None, 7)[7:]}
    return sorted(
        real
        for name in names
        if name[0] == "/" and _is_socket(real := Path(os.path.realpath(name)))
    )


def cover(path: Path) -> Path | None:
    """Return *path*, or the outermost folder above it whose entries another user can remove.

    Building a sandbox fails if another user removes a path to mount on, so such a folder is hidden
    as a whole. None if the path cannot be reached.
    """
    for folder, child in pairwise((*reversed(path.parents), path)):
        try:
            state, inner = folder.stat(), child.stat()
        except OSError:
            return None  # Neither we nor a command can reach it.
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
