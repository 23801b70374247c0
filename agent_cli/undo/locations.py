"""The file that a stopped call names, as a path of ours in the workspace.

A command may see other mounts than we do, so a path is opened as the command sees it, and counts
only if it leads to the same folder for us. Imports little: see `system/launcher`.
"""

import os
import stat
import struct
from functools import partial
from typing import NamedTuple

from agent_cli.undo.kept_files import Inode, inode_of
from agent_cli.undo.stopped_calls import StoppedCall, bytes_of, text_of

_AT_CURRENT = -100
_INT_BIAS = 1 << 31
_LINKS_MAX = 40
_HELD_MAX = 16
_OUTSIDE_MAX = 1000
_UNIX = 1
_TABLE_BYTES = 1 << 16
_NEVER_OURS = ("/dev/null", "/dev/tty")
_OWN = (("/proc/self/", ""), ("/proc/thread-self/", ""), ("/dev/fd/", "fd/"))
_STREAMS = {"/dev/stdin": "fd/0", "/dev/stdout": "fd/1", "/dev/stderr": "fd/2"}


class Location(NamedTuple):
    """A path of ours in the workspace, with what is there.

    Attributes:
        folder: The device and inode of the folder around it.
        name: Its last name; "" for a root, whose own description may change, but nothing else.
        found: What is there; None for nothing.
        held: A descriptor of the folder, while this call is recorded; -1: none is open.
    """

    path: str
    folder: Inode
    name: str
    found: os.stat_result | None
    held: int = -1

    @property
    def key(self) -> tuple[Inode, str]:
        """The identity of the file, independent of the current names of its folders."""
        return self.folder, self.name


class _Folder(NamedTuple):
    """A folder of the workspace: its path now, and its descriptor, or -1."""

    key: Inode
    path: str
    held: int


class Locations:
    """Finds locations below *roots*, which are real paths.

    The last folders are held open: an open folder keeps its inode, and the kernel knows its path.
    """

    def __init__(self, roots: list[str], *, has_own_mounts: bool) -> None:
        self._roots = roots
        self._within = tuple(root.rstrip("/") + "/" for root in roots)
        self._names = frozenset(root.rpartition("/")[2] for root in roots)
        self._has_own_mounts = has_own_mounts
        self._held: dict[Inode, int] = {}
        self._outside: set[Inode] = set()
        # What is mounted in the workspace is not held, or it could not be unmounted.
        self._devices = {found.st_dev for root in roots if (found := _found(root))}
        self._covered: frozenset[str] | None = None

    def forget(self) -> None:
        """Look anew which folders are outside: one has moved, or a new one has its inode."""
        self._outside.clear()

    def named(
        self, call: StoppedCall, folder: int | None, path: int | None, *, follows: bool
    ) -> Location | None:
        """Return the file that arguments number *folder* and *path* name; None if it is not ours.

        Raises:
            OSError: The path leads nowhere, so the call will fail.
        """
        descriptor = _descriptor(call, folder)
        address = 0 if path is None else call.arguments[path]
        text = text_of(call.pid, address) if address else ""
        if not text:
            return self._opened(call.pid, descriptor)
        return self._at(call.pid, descriptor, text, follows=follows)

    def inode(self, call: StoppedCall, folder: int | None) -> Inode:
        """Return the device and inode of the open file that argument number *folder* names.

        Raises:
            OSError: There is none, so the call will fail.
        """
        found = os.stat(f"/proc/{call.pid}/fd/{_descriptor(call, folder)}")
        return inode_of(found)

    def seen_at(
        self, call: StoppedCall, folder: int | None, path: int | None, *, follows: bool = False
    ) -> os.stat_result:
        """Return the file that the command sees at a path, or has open.

        Raises:
            OSError: Nothing, so the call will fail.
        """
        base = _base(call.pid, _descriptor(call, folder))
        address = 0 if path is None else call.arguments[path]
        text = text_of(call.pid, address) if address else ""
        if not text:
            return os.stat(base)
        base, text = _absolute(call.pid, base, text)
        return os.stat(f"{base}/{text}", follow_symlinks=follows)

    def ours(self, path: str) -> Location | None:
        """Return the location of our own *path*; None if it has left the workspace."""
        return self._whole(path) if os.path.lexists(path) else None

    def bound(self, call: StoppedCall) -> Location | None:
        """Return the socket file that a call of `bind` makes; None if it makes none of ours.

        Raises:
            OSError: The address cannot be read, so the call will fail.
        """
        size = min(call.arguments[2] & 0xFFFFFFFF, 110)
        address = bytes_of(call.pid, call.arguments[1], size) if size > 2 else b""
        if len(address) < 3 or struct.unpack_from("=H", address)[0] != _UNIX or not address[2]:
            return None
        text = os.fsdecode(address[2:].partition(b"\0")[0])
        return self._at(call.pid, _AT_CURRENT, text, follows=False)

    def _opened(self, pid: int, descriptor: int) -> Location | None:
        """Return the location of an open file."""
        open_at = _base(pid, descriptor)
        path = os.readlink(open_at)
        if not f"{path}/".startswith(self._within):
            return None
        location = self._whole(path)
        theirs = os.stat(open_at)
        if (
            location is None
            or location.found is None
            or not os.path.samestat(location.found, theirs)
        ):
            return None  # deleted, or on a mount of the command's own
        return location

    def _ours(self, path: str) -> Location | None:
        parent, _, name = path.rpartition("/")
        folder = self._folder(parent)
        return folder and self._in(folder, name)

    def _in(self, folder: _Folder, name: str) -> Location:
        path = f"{folder.path}/{name}"
        try:
            if folder.held < 0:
                found = os.lstat(path)
            else:
                found = os.stat(name, dir_fd=folder.held, follow_symlinks=False)
        except FileNotFoundError:
            return Location(path, folder.key, name, None, folder.held)
        return Location(path, folder.key, name, found, folder.held)

    def _at(self, pid: int, descriptor: int, text: str, *, follows: bool) -> Location | None:
        if text in _NEVER_OURS:
            return None
        base = _base(pid, descriptor)
        for _ in range(_LINKS_MAX):
            base, text = _absolute(pid, base, text)
            parent, _slash, name = f"{base}/{text}".rstrip("/").rpartition("/")
            if name in (".", "..") or not text:
                return self._folder_itself(f"{parent}/{name}")
            folder = self._folder(parent)
            if folder is None:
                if name in self._names and (root := self._root_at(f"{parent}/{name}")):
                    return self._whole(root)
                if not follows:
                    return None
                # A link outside may lead in.
                if (target := _link(f"{parent}/{name}")) is None:
                    return None
            else:
                location = self._in(folder, name)
                if not (follows and location.found and stat.S_ISLNK(location.found.st_mode)):
                    return self._seen(location, f"{parent}/{name}", pid)
                target = os.readlink(location.path)
            base, text = parent, target
        return None

    def _seen(self, location: Location, theirs: str, pid: int) -> Location | None:
        """Return *location* if the command sees the same file: no other is mounted over it."""
        if self._covered is None:
            # Once: in its sandbox a command can mount nothing.
            self._covered = _mount_names(pid) if self._has_own_mounts else frozenset()
        if location.name in self._covered and location.found:
            there = _found(theirs)
            if there is None or not os.path.samestat(there, location.found):
                return None
        return location

    def _root_at(self, path: str) -> str:
        """Return the root that *path* is, the folder around which is not ours; "" for none."""
        there = _found(path)
        for root in self._roots:
            here = _found(root)
            if there and here and os.path.samestat(there, here):
                return root
        return ""

    def _folder_itself(self, path: str) -> Location | None:
        folder = self._folder(path)
        return self._whole(folder.path) if folder else None

    def _whole(self, path: str) -> Location | None:
        """Return the location of our folder or file *path*, which may be a root itself."""
        if path not in self._roots:
            return self._ours(path)
        found = os.lstat(path)
        return Location(path, inode_of(found), "", found)

    def _folder(self, path: str) -> _Folder | None:
        """Return the folder that *path* leads to; None if it is not ours."""
        there = os.stat(path)
        key = inode_of(there)
        if key in self._outside:
            return None
        held = self._held.pop(key, -1)
        if held >= 0:
            self._held[key] = held  # the last one used is given up last
            # Another program may have moved it meanwhile.
            ours = os.readlink(f"/proc/self/fd/{held}")
            return _Folder(key, ours, held) if f"{ours}/".startswith(self._within) else None
        ours = self._path_of(path)
        here = _found(ours) if ours else None
        if here and inode_of(here) == key:
            return _Folder(key, ours, self._hold(key, ours))
        if len(self._outside) >= _OUTSIDE_MAX:
            self._outside.clear()
        self._outside.add(key)
        return None

    def _path_of(self, folder: str) -> str:
        """Return our path of the folder that a path leads to; "" if it is not ours."""
        descriptor = os.open(folder, os.O_PATH | os.O_CLOEXEC)
        try:
            path = os.readlink(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)
        return path if f"{path}/".startswith(self._within) else ""

    def _hold(self, key: Inode, path: str) -> int:
        """Return a descriptor of our folder *path*, or -1, and close that of another one."""
        if key[0] not in self._devices:
            return -1
        try:
            # By our own path: one that the command opened may be on a mount of its own.
            held = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return -1
        found = os.fstat(held)
        if inode_of(found) != key:
            os.close(held)
            return -1
        while len(self._held) >= _HELD_MAX:
            os.close(self._held.pop(next(iter(self._held))))
        self._held[key] = held
        return held


def _descriptor(call: StoppedCall, folder: int | None) -> int:
    if folder is None:
        return _AT_CURRENT
    # An int: the upper half of the register may hold anything.
    return (call.arguments[folder] + _INT_BIAS & 0xFFFFFFFF) - _INT_BIAS


def _base(pid: int, descriptor: int) -> str:
    return f"/proc/{pid}/cwd" if descriptor == _AT_CURRENT else f"/proc/{pid}/fd/{descriptor}"


def _mount_names(pid: int) -> frozenset[str]:
    """Return the last names of all that is mounted for the process *pid*."""
    descriptor = os.open(f"/proc/{pid}/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
    try:
        table = b"".join(iter(partial(os.read, descriptor, _TABLE_BYTES), b""))
    finally:
        os.close(descriptor)
    return frozenset(
        # Spaces and the like are written in octal.
        os.fsdecode(line.split(b" ")[4].decode("unicode_escape").encode("latin-1")).rpartition("/")[
            2
        ]
        for line in table.splitlines()
    )


def _absolute(pid: int, base: str, text: str) -> tuple[str, str]:
    """Return where *text* starts for the process *pid*, and the rest."""
    if not text.startswith("/"):
        return base, text
    text = "/" + text.lstrip("/")
    if text in _STREAMS:
        return f"/proc/{pid}", _STREAMS[text]
    for start, inside in _OWN:
        # For the kernel, `self` is who looks.
        if text.startswith(start):
            return f"/proc/{pid}", inside + text.removeprefix(start)
    return f"/proc/{pid}/root", text.lstrip("/")


def _found(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None


def _link(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None
