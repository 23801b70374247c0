"""Learn from the kernel which folders got or lost an entry: inotify, on Linux.

A folder that cannot be watched must be looked at: on another system, on a file system that other
machines write too, without /proc, or beyond the user's limit of watches.
"""

import ctypes
import os
import select
import struct
import sys
import weakref
from functools import cache
from typing import Final, Protocol

_CREATED, _DELETED, _MOVED_FROM, _MOVED_TO, _ATTRIBUTES = 0x100, 0x200, 0x40, 0x80, 0x4
_ONLY_FOLDERS, _NO_LINKS, _NOT_DELETED_ONES = 0x0100_0000, 0x0200_0000, 0x0400_0000
_MASK: Final = (
    (_CREATED | _DELETED | _MOVED_FROM | _MOVED_TO | _ATTRIBUTES)
    | (_ONLY_FOLDERS | _NO_LINKS | _NOT_DELETED_ONES)
)  # fmt: skip
_OVERFLOW, _IGNORED = 0x4000, 0x8000
_EVENT: Final = struct.Struct("iIII")
_READ_BYTES: Final = 1_048_576
_STATFS_BYTES: Final = 256

# Whose changes all come from this machine, through this kernel: ext2 to ext4, XFS, Btrfs, tmpfs,
# ramfs, overlayfs, F2FS, ZFS and bcachefs.
_LOCAL: Final = frozenset(
    {
        *(0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994, 0x8584_58F6, 0x794C_7630),
        *(0xF2F5_2010, 0x2FC1_2FC1, 0xCA45_1A4E),
    }
)


class FolderListener(Protocol):
    """The holder of some watched folders."""

    def changed(self, path: str, /) -> None:
        """Note that the folder *path* got or lost an entry, or has other permissions."""

    def lost(self, path: str, /) -> None:
        """Note that the folder *path* is no longer watched; it was deleted, or unmounted."""

    def missed(self) -> None:
        """Note that changes went unnoticed: look at all folders again."""


class FolderWatch:
    """The watched folders of some listeners, which are told of changes by `collect`."""

    def __init__(self) -> None:
        mounts = _mount_table()
        self._descriptor = None if mounts is None else _new_watch()
        self._held: dict[int, list[tuple[str, FolderListener]]] = {}
        self._numbers: dict[tuple[str, FolderListener], int] = {}
        self._local: dict[int, bool] = {}
        self._listeners = set[FolderListener]()
        self._mounts = select.poll()
        if mounts is not None:
            self._mounts.register(mounts, select.POLLPRI)
        opened = [each for each in (self._descriptor, mounts) if each is not None]
        self._close = weakref.finalize(self, _closed, opened)
        self._close.atexit = False  # the kernel does it

    def add(self, path: str, device: int, listener: FolderListener) -> bool:
        """Watch the folder *path* on *device*; return whether that works.

        What changes after this call is told by `collect`, so the folder is to be listed after it.
        """
        if self._descriptor is None or not self._is_local(path, device):
            return False
        number = _libc().inotify_add_watch(self._descriptor, os.fsencode(path), _MASK)
        if number < 0:
            return False
        self._listeners.add(listener)
        holders = self._held.setdefault(number, [])
        if (path, listener) not in holders:
            holders.append((path, listener))
        self._numbers[path, listener] = number
        return True

    def drop(self, path: str, listener: FolderListener) -> None:
        """Watch the folder *path* no more."""
        number = self._numbers.pop((path, listener), None)
        if number is None or number not in self._held:
            return
        self._held[number].remove((path, listener))
        if not self._held[number]:
            del self._held[number]
            _libc().inotify_rm_watch(self._descriptor, number)

    def collect(self) -> None:
        """Tell the listeners what changed since the last call."""
        if self._descriptor is None:
            return
        is_missed = bool(self._mounts.poll(0))
        while received := _received(self._descriptor):
            at = 0
            while at < len(received):
                number, kind, _, name_bytes = _EVENT.unpack_from(received, at)
                at += _EVENT.size + name_bytes
                is_missed = is_missed or bool(kind & _OVERFLOW)
                # With a name it is about an entry, whose times and mode do not matter here.
                if not kind & _ATTRIBUTES or not name_bytes:
                    self._tell(number, is_over=bool(kind & _IGNORED))
        if is_missed:
            for listener in self._listeners:
                listener.missed()

    def close(self) -> None:
        """Watch nothing more."""
        self._descriptor = None
        self._close()

    def _tell(self, number: int, *, is_over: bool) -> None:
        for path, listener in self._held.get(number, ()):
            if is_over:
                self._numbers.pop((path, listener), None)
                listener.lost(path)
            else:
                listener.changed(path)
        if is_over:
            self._held.pop(number, None)

    def _is_local(self, path: str, device: int) -> bool:
        if device not in self._local:
            state = ctypes.create_string_buffer(_STATFS_BYTES)
            is_known = _libc().statfs(os.fsencode(path), state) == 0
            kind = int.from_bytes(state.raw[: ctypes.sizeof(ctypes.c_long)], sys.byteorder)
            self._local[device] = is_known and kind & 0xFFFF_FFFF in _LOCAL
        return self._local[device]


@cache
def _libc() -> ctypes.PyDLL:
    # Without releasing Python's lock: each call takes a microsecond, a handover more.
    return ctypes.PyDLL(None)


def _mount_table() -> int | None:
    """Open the file on which the kernel reports a priority event when something was mounted."""
    try:
        return os.open("/proc/self/mounts", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # no /proc, as on another system and in some containers
        return None


def _new_watch() -> int | None:
    if sys.platform != "linux" or not hasattr(_libc(), "inotify_init1"):
        return None
    descriptor = int(_libc().inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
    return descriptor if descriptor >= 0 else None


def _received(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _READ_BYTES)
    except BlockingIOError:
        return b""


def _closed(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
