"""Store long strings (images, big outputs) next to the record, once each, named by their hash.

The record then has `{"$blob": name}` in the string's place and `"packed": true`. Data that looks
the same is escaped: keys that begin with "$" are written with one more "$".

Sessions share these files. A lock keeps a file from being removed between the moment it is stored,
or found to be there, and the moment the record that names it is written.
"""

import fcntl
import hashlib
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from agent_cli.session_store.codec import JsonObject
from agent_cli.system.loading import late_pattern
from agent_cli.system.private_files import locked, write_private
from agent_cli.system.shapes import is_array, is_object, is_sequence

BLOB_CHARS_MIN = 32_768
_KEY = "$blob"
_NAME = late_pattern(r"[0-9a-f]{64}")
_REFERENCE: Final = late_pattern(rb'"\$blob": ?"([0-9a-f]{64})"')
_LOCK: Final = ".lock"


class Blobs:
    """A folder of long strings, created with the first one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def move_out(self, record: JsonObject) -> JsonObject:
        """Return *record* with its long strings in files of their own.

        Raises:
            OSError: A file cannot be written.
        """
        if _is_plain(record):  # nearly all records: they need no copy, neither here nor when read
            return record
        return {"packed": True, **{key: self._out(value) for key, value in record.items()}}

    @contextmanager
    def moved_out(self, records: Sequence[JsonObject]) -> Generator[Sequence[JsonObject]]:
        """Yield *records* without their long strings; write them in the body, under the lock.

        Raises:
            OSError: A file cannot be written, or the lock is held for too long.
        """
        if all(map(_is_plain, records)):
            yield records
            return
        with self.locked(fcntl.LOCK_SH):
            yield [self.move_out(record) for record in records]

    @contextmanager
    def locked(self, kind: int) -> Generator[None]:
        """Hold the lock: LOCK_SH to write records that name files, LOCK_EX to remove files.

        Raises:
            OSError: It cannot be had within ten seconds.
        """
        with locked(self._folder / _LOCK, kind):
            yield

    def bring_back(self, record: JsonObject) -> JsonObject:
        """Undo `move_out`; the text of a missing or damaged file becomes a note."""
        if "packed" not in record:
            return record
        return {key: self._back(value) for key, value in record.items() if key != "packed"}

    def missing(self, record: JsonObject) -> list[str]:
        """Return the names of files that *record* needs and that are missing or damaged."""
        needed = _names(record) if "packed" in record else ()
        return [name for name in needed if self._get(name) is None]

    def _out(self, value: object) -> object:
        if isinstance(value, str):
            return {_KEY: self._put(value)} if len(value) >= BLOB_CHARS_MIN else value
        if is_object(value):
            return {_escaped(str(key)): self._out(part) for key, part in value.items()}
        return [self._out(part) for part in value] if is_sequence(value) else value

    def _back(self, value: object) -> object:
        if is_array(value):
            return [self._back(part) for part in value]
        if not is_object(value):
            return value
        if _KEY in value:
            name = str(value[_KEY])
            text = self._get(name)
            return f"[lost: {name[:12]} is missing or damaged]" if text is None else text
        return {key.removeprefix("$"): self._back(part) for key, part in value.items()}

    def _put(self, text: str) -> str:
        data = text.encode("utf-8", "surrogatepass")
        name = hashlib.sha256(data).hexdigest()
        path = self._folder / name
        if not path.exists():
            write_private(path, data)
        return name

    def _get(self, name: str) -> str | None:
        if not _NAME.fullmatch(name):
            return None
        try:
            data = (self._folder / name).read_bytes()
        except OSError:
            return None
        if hashlib.sha256(data).hexdigest() != name:
            return None
        return data.decode("utf-8", "surrogatepass")


def names_in(path: Path) -> frozenset[str]:
    """Return the files that the session at *path* names, damaged records included.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        return frozenset(name.decode() for line in file for name in _REFERENCE.findall(line))


def _is_plain(value: object) -> bool:
    """Return whether *value* can be stored in a record unchanged."""
    if isinstance(value, str):
        return len(value) < BLOB_CHARS_MIN
    if is_object(value):
        # A plugin may use dict keys that JSON does not have.
        plain = all(isinstance(key, str) and not key.startswith("$") for key in value)
        return plain and all(map(_is_plain, value.values()))
    return not is_sequence(value) or all(map(_is_plain, value))


def _escaped(key: str) -> str:
    return f"${key}" if key.startswith("$") else key


def _names(value: object) -> list[str]:
    if is_array(value):
        return [name for part in value for name in _names(part)]
    if not is_object(value):
        return []
    if isinstance(name := value.get(_KEY), str):
        return [name]
    return [name for part in value.values() for name in _names(part)]
