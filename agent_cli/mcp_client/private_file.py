"""Read and write files that only the user can read; failures name the file."""

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from agent_cli.contracts.errors import SettingsError
from agent_cli.system import paths, private_files
from agent_cli.system.shapes import is_object

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
        except OSError as error:
            raise SettingsError(f"{lock} is held by another agent-cli: try again") from error
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
