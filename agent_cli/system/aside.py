"""Move a file aside without losing it, even if the folders above it are swapped meanwhile."""

import contextlib
import errno
import os
import shutil
import time
from pathlib import Path

_KEPT_S = 30 * 24 * 3600.0

_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC if hasattr(os, "O_PATH") else 0


def move_aside(path: Path, folder: Path) -> Path:
    """Move *path* into a new folder below *folder*, a link as such; return the new path.

    Raises:
        OSError: It is gone, its folder was replaced by a link, or it cannot be moved.
    """
    target = _new_folder(folder) / path.name
    try:
        if _FOLDER:
            _move_in(path, target)
        else:
            shutil.move(path, target)
    except OSError:
        target.parent.rmdir()
        raise
    return target


def forget_old(folder: Path) -> None:
    """Delete the folders in *folder* that have not changed for more than a month.

    A folder in use is kept, since its modification time is updated.
    """
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            is_old = time.time() - entry.stat(follow_symlinks=False).st_mtime > _KEPT_S
            if is_old and entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)


def _move_in(path: Path, target: Path) -> None:
    parent = os.open(path.parent, _FOLDER)
    try:
        # A folder above may have been replaced by a link, for example into a home directory.
        there = Path(os.readlink(f"/proc/self/fd/{parent}"))  # noqa: PTH115 - unchanged
        if there != path.parent:
            raise OSError(errno.ESTALE, f"{path.parent} leads to {there}")
        try:
            os.rename(path.name, target, src_dir_fd=parent)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            shutil.move(f"/proc/self/fd/{parent}/{path.name}", target)
    finally:
        os.close(parent)


def _new_folder(folder: Path) -> Path:
    """Create a folder named by the current time, numbered if that name is taken."""
    now = time.strftime("%Y-%m-%dT%H-%M-%S")
    number = 1
    while True:
        made = folder / (now if number == 1 else f"{now}.{number}")
        try:
            made.mkdir(mode=0o700, parents=True)
        except FileExistsError:
            number += 1
        else:
            return made
