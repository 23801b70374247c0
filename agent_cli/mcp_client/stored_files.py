"""Files that only the user can read: replaced whole, changed under locks, and tables in them."""

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from agent_cli.contracts.errors import SettingsError
from agent_cli.system import paths, private_files
from agent_cli.system.json_text import json_object

_POLL_S = 0.02


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Keep other programs from changing *path* between reading and writing it; blocks.

    Raises:
        SettingsError: It cannot be locked.
    """
    lock = path.with_name(f".{path.name}.lock")
    try:
        descriptor = _opened(lock)
    except OSError as error:
        raise SettingsError(f"{lock} cannot be written: {error.strerror}") from error
    try:
        try:
            private_files.wait_for_lock(descriptor, lock)
        except BlockingIOError as error:
            raise SettingsError(f"{lock} is held by another agent-cli: try again") from error
        except OSError as error:  # a network file system without locks
            raise SettingsError(f"{lock} cannot be locked: {error.strerror}") from error
        yield
    finally:
        os.close(descriptor)


@asynccontextmanager
async def held(lock: Path, limit_s: float) -> AsyncGenerator[None]:
    """Hold the file *lock* alone among all processes; the others' event loops go on meanwhile.

    Raises:
        TimeoutError: Another process holds it for longer than *limit_s*.
        OSError: It cannot be locked.
    """
    descriptor = _opened(lock)
    try:
        async with asyncio.timeout(limit_s):
            while not private_files.try_lock(descriptor):  # noqa: ASYNC110 - held by other processes
                await asyncio.sleep(_POLL_S)
        yield
    finally:
        os.close(descriptor)


def _opened(lock: Path) -> int:
    paths.private_dir(lock.parent)
    return os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


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
    if paths.is_special(path):
        raise SettingsError(f"{path} cannot be read: {paths.NO_FILE}")
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from error


class PrivateTable:
    """A JSON file, key → name → value, that several processes change.

    Raises:
        SettingsError: The file cannot be read or written, or is damaged.
    """

    def __init__(self, path: Path, *, remedy: str) -> None:
        """Read nothing yet; *remedy* ends the error about a damaged file: "delete it to ..."."""
        self._path = path
        self._remedy = remedy

    def of(self, key: str) -> Mapping[str, Any]:
        """Return name → value, {} if nothing is stored."""
        return self._read().get(key, {})

    def update(self, key: str, values: Mapping[str, Any]) -> None:
        """Add *values* to what is stored under *key*; thread-safe."""
        if values.items() <= self.of(key).items():
            return
        with locked(self._path):  # or two processes would overwrite each other's entries
            table = self._read()
            table.setdefault(key, {}).update(values)
            write_private(self._path, json.dumps(table, indent=1, sort_keys=True).encode())

    def _read(self) -> dict[str, dict[str, Any]]:
        data = read_private(self._path)
        stored = {} if data is None else json_object(data)
        if stored is None:
            raise SettingsError(f"{self._path} is damaged; {self._remedy}")
        return stored
