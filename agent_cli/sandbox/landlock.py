"""Landlock: the kernel's own way to give a thread, and all it starts, fewer files than its user.

It can only grant: what is not named below a granted directory stays closed, and nothing inside one
can be taken away again. Three system calls by number, because the C library has no names for them.

Source: linux/landlock.h; the rights each version (ABI) of it knows.
"""

import ctypes
import os
import struct
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG = 1
_PATH_BENEATH = 1
_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER_MODE = 38, 22, 2
_SET_SECUREBITS, _ROOT_IS_NOBODY_SPECIAL = 28, 0b11
_CAPABILITY_VERSION = 0x20080522

_WRITE_FILE, _READ_FILE = 1 << 1, 1 << 2
_REMOVE_AND_MAKE = sum(1 << bit for bit in range(4, 13))
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_WRITE = _WRITE_FILE | _REMOVE_AND_MAKE | _REFER | _TRUNCATE
_FOR_FILES = _WRITE_FILE | _READ_FILE | _TRUNCATE
_CONNECT_AND_BIND = 3
_SCOPES = 3  # abstract unix sockets, signals

# Below it, truncate() empties any file.
ABI_MIN = 3
_ABI_NETWORK, _ABI_SCOPES = 4, 6


@dataclass(frozen=True, slots=True)
class Grants:
    """What a restricted thread may still use; every path must be real."""

    readable: Sequence[Path]
    writable: Sequence[Path]
    network: bool


def abi() -> int:
    """Return the version of Landlock in the running kernel; 0 when there is none."""
    if sys.platform != "linux":
        return 0
    version = _libc().syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG)
    return max(int(version), 0)


def restrict_as_told(told: Mapping[str, Any]) -> None:
    """Do what `launching.Restriction` says, given as a dictionary; see `restrict_thread`."""
    grants = Grants(
        tuple(map(Path, told["readable"])), tuple(map(Path, told["writable"])), told["network"]
    )
    restrict_thread(grants, bytes.fromhex(told["seccomp"]))


def restrict_thread(grants: Grants, seccomp: bytes) -> None:
    """Restrict the calling thread, and whatever it starts from now on, for good.

    Other threads of the process are as free as before.

    Raises:
        OSError: The kernel refused; the thread may be restricted in part.
    """
    libc = _libc()
    _drop_capabilities(libc)
    _check(libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    ruleset = _ruleset(libc, grants)
    try:
        _check(libc.syscall(_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)
    code = ctypes.create_string_buffer(seccomp, len(seccomp))
    # struct sock_fprog: the number of instructions, then (aligned) where they are.
    program = ctypes.create_string_buffer(
        struct.pack("@HP", len(seccomp) // 8, ctypes.addressof(code))
    )
    _check(libc.prctl(_SET_SECCOMP, _FILTER_MODE, program, 0, 0))


def _drop_capabilities(libc: ctypes.CDLL) -> None:
    """Make root an ordinary user: some of its capabilities reach past Landlock."""
    if os.geteuid() == 0:
        _check(libc.prctl(_SET_SECUREBITS, _ROOT_IS_NOBODY_SPECIAL, 0, 0, 0))
    _check(libc.capset(struct.pack("=Ii", _CAPABILITY_VERSION, 0), bytes(24)))


def _ruleset(libc: ctypes.CDLL, grants: Grants) -> int:
    version = abi()
    network = _CONNECT_AND_BIND if version >= _ABI_NETWORK and not grants.network else 0
    scopes = _SCOPES if version >= _ABI_SCOPES else 0
    handled = struct.pack("=QQQ", _WRITE | _READ_FILE, network, scopes)
    size = 24 if version >= _ABI_SCOPES else 16 if version >= _ABI_NETWORK else 8
    ruleset = _check(libc.syscall(_CREATE_RULESET, handled, size, 0))
    try:
        for path in grants.readable:
            _grant(libc, ruleset, path, _READ_FILE)
        for path in grants.writable:
            _grant(libc, ruleset, path, _READ_FILE | _WRITE)
    except BaseException:
        os.close(ruleset)
        raise
    return ruleset


def _grant(libc: ctypes.CDLL, ruleset: int, path: Path, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        # What is not there needs no right, and what we cannot reach the command cannot either: so
        # it is in another user's private folder, for root too, who has given up its capabilities.
        return
    try:
        if not path.is_dir():
            rights &= _FOR_FILES
        rule = struct.pack("=Qi", rights, place)
        _check(libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0))
    finally:
        os.close(place)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
