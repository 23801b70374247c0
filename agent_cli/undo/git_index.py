"""Read git's index, and tell by it which files git holds as they are.

Imports little: see `system/launcher`.

Source: gitformat-index(5), racy-git in git's own documentation.
"""

import os
import stat
import struct
from collections.abc import Iterator
from typing import NamedTuple

_ENTRY = struct.Struct(">8xII4xI4s8xI20sH")
_EXTENDED, _STAGES, _ON_FILE, _LENGTH = 0x4000, 0x3000, 12, 0xFFF
_HASHED_BYTES_MAX = 4_000_000
_INDEX_BYTES_MAX = 256_000_000
_GITDIR_BYTES_MAX = 4096


class IndexEntry(NamedTuple):
    """A file in git's index, with the file status that the index caches.

    Attributes:
        path: Relative to the top of the working tree.
        content: The id of its content in git.
        flags: All its flags, as they are written.
        mode: As it is written.
    """

    path: bytes
    content: bytes
    changed_ns: int
    inode: int
    size: int
    mode: bytes
    flags: bytes


def index_entries(index: bytes) -> Iterator[IndexEntry]:
    """Yield the entries of an *index*, in its order.

    Raises:
        ValueError: It is none that we know; struct.error: it is cut off.
    """
    magic, version, count = struct.unpack_from(">4sII", index)
    if magic != b"DIRC" or version not in (2, 3, 4):
        raise ValueError(version)
    at, path = _ON_FILE, b""
    for _ in range(count):
        seconds, nanoseconds, inode, mode, size, content, flags = _ENTRY.unpack_from(index, at)
        end = at + _ENTRY.size + (2 if flags & _EXTENDED else 0)
        written = index[at + _ENTRY.size - 2 : end]
        if version == 4:
            dropped, end = _number(index, end)
            name_end = index.index(b"\0", end)
            path = path[: len(path) - dropped] + index[end:name_end]
            at = name_end + 1
        else:
            name_end = index.index(b"\0", end)
            path = index[end:name_end]
            at += (name_end - at + 8) // 8 * 8
        changed_ns = seconds * 1_000_000_000 + nanoseconds
        yield IndexEntry(
            path=path,
            content=content,
            changed_ns=changed_ns,
            inode=inode,
            size=size,
            mode=mode,
            flags=written,
        )


def _number(index: bytes, at: int) -> tuple[int, int]:
    """Return a number of variable length, and where it ends."""
    found = index[at] & 0x7F
    while index[at] & 0x80:
        at += 1
        found = ((found + 1) << 7) | (index[at] & 0x7F)
    return found, at + 1


class HeldFiles:
    """The files that git holds as they are, by the indexes as they were when first needed.

    So it may be asked while git itself writes a new index.
    """

    def __init__(self) -> None:
        self._tops: dict[str, str] = {}
        self._entries: dict[str, dict[str, IndexEntry]] = {}
        self._written_ns: dict[str, int] = {}

    def holds(self, path: str, found: os.stat_result) -> bool:
        """Return whether git holds the file at *path*, which is as *found*; reads it in doubt."""
        entry, written_ns = self._entry(path)
        if entry is None or not stat.S_ISREG(found.st_mode):
            return False
        is_as_cached = (
            entry.size == found.st_size & 0xFFFFFFFF
            and entry.inode == found.st_ino & 0xFFFFFFFF
            and entry.changed_ns == found.st_mtime_ns
        )
        # A file that changes in the moment in which the index is written looks unchanged.
        if is_as_cached and entry.changed_ns < written_ns:
            return True
        return entry.content == content_id(path, found)

    def held_before(self, path: str, content: bytes) -> bool:
        """Return whether git holds *content*, the `content_id` of a file that was at *path*."""
        entry, _written_ns = self._entry(path)
        return entry is not None and entry.content == content

    def _entry(self, path: str) -> tuple[IndexEntry | None, int]:
        top = self._top(os.path.dirname(path))
        if not top:
            return None, 0
        if top not in self._entries:
            self._read(top)
        return self._entries[top].get(path[len(top) :]), self._written_ns.get(top, 0)

    def _top(self, folder: str) -> str:
        """Return the top of the working tree around *folder*, with a slash; "" for none."""
        known = self._tops.get(folder)
        if known is None:
            if os.path.lexists(f"{folder}/.git"):
                known = f"{folder}/"
            else:
                above = os.path.dirname(folder)
                known = "" if above == folder else self._top(above)
            self._tops[folder] = known
        return known

    def _read(self, top: str) -> None:
        entries = self._entries[top] = {}
        try:
            # Without O_NONBLOCK, a named pipe in its place would hold the command that asks.
            flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
            file = os.open(f"{_git_folder(top)}/index", flags)
            try:
                found = os.fstat(file)
                index = os.read(file, min(found.st_size, _INDEX_BYTES_MAX))
            finally:
                os.close(file)
            for each in index_entries(index):
                flags = struct.unpack_from(">H", each.flags)[0]
                if not flags & _STAGES:
                    entries[os.fsdecode(each.path)] = each
            self._written_ns[top] = found.st_mtime_ns
        except (OSError, ValueError, IndexError, struct.error):
            entries.clear()


def _git_folder(top: str) -> str:
    """Return the folder of the repository, which a linked working tree names in a file.

    Raises:
        ValueError: There is neither the folder nor such a file.
    """
    path = f"{top}.git"
    if os.path.isdir(path):
        return path
    mark, _, named = os.fsdecode(start_of(path, _GITDIR_BYTES_MAX) or b"").partition("gitdir:")
    if mark or not named.strip():  # else a file "index" of the working tree would be taken for one
        raise ValueError(path)
    return os.path.join(top, named.strip())


def content_id(path: str, found: os.stat_result) -> bytes:
    """Return the id that git gives the content of a file; b"" if it is large or cannot be read."""
    from hashlib import sha1  # few commands need it

    if not stat.S_ISREG(found.st_mode) or found.st_size > _HASHED_BYTES_MAX:
        return b""
    content = start_of(path, _HASHED_BYTES_MAX)
    if content is None:
        return b""
    header = b"blob %d\0" % len(content)
    return sha1(header + content, usedforsecurity=False).digest()


def start_of(path: str, size: int) -> bytes | None:
    """Return the first *size* bytes of a file; None if it cannot be read."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(file, size)
    except OSError:
        return None
    finally:
        os.close(file)
