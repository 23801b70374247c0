"""Move a file aside without losing it, even if the folders above it are swapped meanwhile."""

import contextlib
import errno
import os
import time
from pathlib import Path

from agent_cli.system.fixed_paths import directory_at
from agent_cli.system.trees import remove_tree

_KEPT_S = 30 * 24 * 3600.0
_NAME_MAX = 60  # characters of up to four bytes, of the 255 bytes of a name


def move_aside(path: Path, folder: Path) -> Path:
    """Move *path* into a new folder below *folder*, a link as such; return the new path.

    If *folder* is on another disk, *path* gets another name in its own folder instead: a command
    may have made it as large as its disk.

    Raises:
        OSError: It is gone, its folder was replaced by a link, or it cannot be moved.
    """
    target = new_folder(folder) / path.name
    try:
        with directory_at(path.parent) as parent:
            os.rename(path.name, target, src_dir_fd=parent)
    except OSError as error:
        target.parent.rmdir()
        if error.errno != errno.EXDEV:
            raise
        return _renamed(path)
    return target


def _renamed(path: Path) -> Path:
    new = other_name(path.name)
    with directory_at(path.parent) as parent:
        os.rename(path.name, new, src_dir_fd=parent, dst_dir_fd=parent)
    return path.with_name(new)


def other_name(name: str) -> str:
    """Return a name for a file *name* that stays in its folder, and that no program looks for."""
    return f"{name[:_NAME_MAX]}.moved-{os.urandom(4).hex()}"


def forget_old(folder: Path) -> None:
    """Delete the folders in *folder* that have not changed for more than a month.

    A folder in use is kept, since its modification time is updated.
    """
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            is_old = time.time() - entry.stat(follow_symlinks=False).st_mtime > _KEPT_S
            if is_old and entry.is_dir(follow_symlinks=False):
                remove_tree(entry.path)


def new_folder(folder: Path) -> Path:
    """Create a folder named by the current time, with a random suffix if that name is taken."""
    now = time.strftime("%Y-%m-%dT%H-%M-%S")
    name = now
    while True:
        made = folder / name
        try:
            made.mkdir(mode=0o700, parents=True)
        except FileExistsError:
            name = f"{now}.{os.urandom(4).hex()}"
        else:
            return made
