"""The names of temporary files beside the user's files, with a note of each while it is in use.

A process that is killed between naming a file and giving it its final name leaves the temporary
name in a folder of the user. The note, in the state folder, outlives the process: the next start of
the program removes the named file. The writer holds a lock on its note, which the kernel releases
when the writer dies, so the notes of programs that still write are left alone.
"""

import contextlib
import os
import re
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from agent_cli.system.fixed_paths import directory_at
from agent_cli.system.paths import private_dir, state_dir
from agent_cli.system.private_files import try_lock

_PREFIX: Final = ".agt-"
_NAME: Final = re.compile(r"\.agt-[0-9a-f]{16}")
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_PATH_BYTES_MAX: Final = 100_000


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
        for note in list(_folder().iterdir()):
            with contextlib.suppress(OSError):
                _remove(note)


def _folder() -> Path:
    return state_dir() / "unfinished"


def _keep(path: Path, kept: contextlib.ExitStack) -> None:
    note = private_dir(_folder()) / path.name
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
