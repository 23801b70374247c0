"""Read and write files that only the user can read; failures name the file."""

import fcntl
import json
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from agent_cli.contracts.errors import SettingsError
from agent_cli.system import paths, private_files
from agent_cli.system.shapes import is_object

_LOCK_LIMIT_S: Final = 10.0
_POLL_S: Final = 0.01


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Keep other programs from changing *path* between reading and writing it; blocks.

    Raises:
        SettingsError: It cannot be locked.
    """
    lock = path.with_name(f".{path.name}.lock")
    try:
        paths.private_dir(path.parent)
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SettingsError(f"{lock} cannot be written: {error.strerror}") from error
    try:
        until_s = time.monotonic() + _LOCK_LIMIT_S
        while not _has_taken(descriptor):
            if time.monotonic() > until_s:
                raise SettingsError(f"{lock} is held by another agent-cli: try again")
            time.sleep(_POLL_S)  # others hold it while they write one file
        yield
    finally:
        os.close(descriptor)


def _has_taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def write_private(path: Path, data: bytes) -> None:
    """Replace the content of *path* by *data*, as `private_files.write_private`.

    Raises:
        SettingsError: It cannot be written.
    """
    try:
        private_files.write_private(path, data)
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error.strerror}") from error


def read_private(path: Path) -> bytes | None:
    """Return the content of *path*, None if it does not exist.

    Raises:
        SettingsError: It cannot be read.
    """
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from error


def read_private_object(path: Path, *, remedy: str) -> dict[str, Any]:
    """Return the JSON object in *path*, {} if it does not exist.

    Args:
        remedy: The end of the error message about a damaged file: "delete it to ...".

    Raises:
        SettingsError: It cannot be read, or is damaged.
    """
    data = read_private(path)
    if data is None:
        return {}
    try:
        stored = json.loads(data)
    except ValueError:
        stored = None
    if not is_object(stored):
        raise SettingsError(f"{path} is damaged; {remedy}")
    return stored
