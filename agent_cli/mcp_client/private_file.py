"""Files that only the user can read, replaced atomically: a crash leaves the old content."""

import json
import os
from pathlib import Path
from typing import Any

from agent_cli.contracts.errors import SettingsError
from agent_cli.system import paths
from agent_cli.system.shapes import is_object


def write_private(path: Path, data: bytes) -> None:
    """Write *data* to *path*, mode 0600, creating its directory.

    Raises:
        SettingsError: It cannot be written.
    """
    new = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        paths.private_dir(path.parent)
        new.unlink(missing_ok=True)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
        new.replace(path)
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
