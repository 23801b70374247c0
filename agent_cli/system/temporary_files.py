"""Temporary files beside the user's files, and a temporary folder; neither outlives its process.

A process that is killed between naming a file and giving it its final name leaves the temporary
name in a folder of the user. The note, in the state folder, outlives the process: the next start of
the program removes the named file. The writer holds a lock on its note, which the kernel releases
when the writer dies, so the notes of programs that still write are left alone.

The owner of a temporary folder holds a lock on it in the same way. After a SIGKILL, the next
process that creates one removes it.
"""

import atexit
import contextlib
import os
import secrets
import tempfile
import threading
import weakref
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

from agent_cli.system.fixed_paths import DIRECTORY, directory_at
from agent_cli.system.loading import late_pattern
from agent_cli.system.paths import private_dir, state_dir
from agent_cli.system.private_files import try_lock
from agent_cli.system.trees import remove_tree

_PREFIX: Final = ".agt-"
_NAME: Final = late_pattern(r"\.agt-[0-9a-f]{16}")
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_PATH_BYTES_MAX: Final = 100_000
_FOLDER_PREFIX: Final = "agent-cli-run-"


def temporary_name() -> str:
    """Return a name that no other file has."""
    return f"{_PREFIX}{secrets.token_hex(8)}"


def is_temporary_name(name: str) -> bool:
    """Return whether `temporary_name` may have returned *name*."""
    return _NAME.fullmatch(name) is not None


@contextmanager
def noted(path: Path) -> Generator[None]:
    """Keep a note of the temporary file *path* until it has its final name or is removed.

    Where no note can be kept, in a full or read-only state folder, the write goes on without one.
    """
    with contextlib.ExitStack() as kept:
        with contextlib.suppress(OSError):
            _keep(path, kept)
        yield


def remove_noted() -> None:
    """Remove the temporary files of killed processes. Any number of processes may do so at once."""
    with contextlib.suppress(OSError):
        for note in list(_notes().iterdir()):
            with contextlib.suppress(OSError):
                _remove(note)


def _notes() -> Path:
    return state_dir() / "unfinished"


def _keep(path: Path, kept: contextlib.ExitStack) -> None:
    note = private_dir(_notes()) / path.name
    while True:
        descriptor = os.open(note, _NEW, 0o600)
        # Until it is locked, a program that starts may take it for one of a killed process.
        if try_lock(descriptor) and os.fstat(descriptor).st_nlink:
            break
        os.close(descriptor)
    kept.callback(_drop, note, descriptor)
    os.write(descriptor, os.fsencode(path))


def _drop(note: Path, descriptor: int) -> None:
    with contextlib.suppress(OSError):
        note.unlink(missing_ok=True)
    os.close(descriptor)


def _remove(note: Path) -> None:
    descriptor = os.open(note, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not try_lock(descriptor):
            return
        path = Path(os.fsdecode(os.read(descriptor, _PATH_BYTES_MAX)))
        if is_temporary_name(path.name) and path.is_absolute():
            with contextlib.suppress(OSError), directory_at(path.parent) as dir_fd:
                os.unlink(path.name, dir_fd=dir_fd)
        note.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


# Held from the end of the process on: a thread for which nobody waits makes nothing any more.
# That end may take it twice: in an exit function, and where these do not run.
_making: Final = threading.RLock()
_MAKING_LIMIT_S: Final = 1.0
# Each stays here until it is gone: the end of the process may stop the thread that removes it.
_owned: Final = set[Path]()


class OwnFolder:
    """A directory that only its user may enter; removed with this object, or with the process."""

    def __init__(self) -> None:
        """Create the directory, and remove the directories of killed processes.

        Raises:
            OSError: The disk is full, or creating one is not permitted.
        """
        remove_left_folders()
        with _making:
            _remove_at_exit()
            self.path, lock = _make_folder()
            _owned.add(self.path)
            self._removal = weakref.finalize(self, _give_up, self.path, lock)

    def remove(self) -> None:
        """Delete the directory with its content. May be called again."""
        # Detached, because a finalizer does nothing after the exit function of its module.
        if removal := self._removal.detach():
            _, give_up, arguments, _ = removal
            give_up(*arguments)


@contextmanager
def own_folder() -> Generator[Path]:
    """Create an `OwnFolder` and remove it after the body.

    Raises:
        OSError: It cannot be created.
    """
    folder = OwnFolder()
    try:
        yield folder.path
    finally:
        folder.remove()


def remove_own_folders() -> None:
    """Remove the directories of this process, which makes none from now on: it ends."""
    _making.acquire(timeout=_MAKING_LIMIT_S)
    for path in _owned.copy():  # a thread may change it meanwhile
        remove_tree(path)


def remove_left_folders() -> None:
    """Remove the directories of this user whose processes have ended, killed with -9 for example.

    Any number of processes may do so at once.
    """
    with _making:  # the first call writes a file to try the folder
        temporary = tempfile.gettempdir()
    with os.scandir(temporary) as entries:
        found = [Path(entry.path) for entry in entries if entry.name.startswith(_FOLDER_PREFIX)]
    for path in found:
        # Skip a directory of another user, or one that another process is removing.
        with contextlib.suppress(OSError):
            lock = os.open(path, DIRECTORY)
            if os.fstat(lock).st_uid == os.geteuid() and try_lock(lock):
                _give_up(path, lock)
            else:
                os.close(lock)


@cache
def _remove_at_exit() -> None:
    atexit.register(remove_own_folders)


def _make_folder() -> tuple[Path, int]:
    while True:
        path = Path(tempfile.mkdtemp(prefix=_FOLDER_PREFIX))
        # Until it is locked, another process that sweeps may take it for abandoned.
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(path, DIRECTORY)
            if try_lock(lock) and path.exists():
                return path, lock
            os.close(lock)


def _give_up(path: Path, lock: int) -> None:
    remove_tree(path)
    _owned.discard(path)
    os.close(lock)
