"""Landlock: the kernel's way to restrict the file access of a thread and the processes it starts.

It can only grant: everything outside the granted directories stays closed, and nothing inside one
can be denied again. Three system calls by number, because the C library has no names for them.

Source: linux/landlock.h, with the rights that each version (ABI) knows.
"""

import ctypes
import json
import os
import struct
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

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

# Older versions cannot restrict truncate(), which would empty any file.
ABI_MIN = 3
_ABI_NETWORK, _ABI_SCOPES = 4, 6


def abi() -> int:
    """Return the version of Landlock in the running kernel; 0 if it has none."""
    if sys.platform != "linux":
        return 0
    version = _libc().syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG)
    return max(int(version), 0)


def keeps_signals() -> bool:
    """Return whether a restricted thread cannot send signals to processes outside."""
    return abi() >= _ABI_SCOPES


def main() -> NoReturn:
    """Restrict this process as the first arguments say, whose number leads; run the others."""
    count = int(sys.argv[1])
    command = sys.argv[2 + count :]
    restrict_thread(json.loads("".join(sys.argv[2 : 2 + count])))
    try:
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"cannot start {command[0]}: {error}\n".encode(errors="replace"))
        sys.exit(127)


def restrict_thread(restriction: Mapping[str, Any]) -> None:
    """Restrict the calling thread, and every process it starts from now on, permanently.

    Other threads of the process are not affected. *restriction* is a `launching.Restriction` as a
    dictionary, whose paths are real.

    Raises:
        OSError: The kernel refused; the thread may be restricted in part.
    """
    libc = _libc()
    _drop_capabilities(libc)
    _check(libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    ruleset = _ruleset(libc, restriction)
    try:
        _check(libc.syscall(_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)
    seccomp = bytes.fromhex(restriction["seccomp"])
    code = ctypes.create_string_buffer(seccomp, len(seccomp))
    # struct sock_fprog: the number of instructions, then (aligned) their address.
    program = ctypes.create_string_buffer(
        struct.pack("@HP", len(seccomp) // 8, ctypes.addressof(code))
    )
    _check(libc.prctl(_SET_SECCOMP, _FILTER_MODE, program, 0, 0))


def _drop_capabilities(libc: ctypes.CDLL) -> None:
    """Make root an ordinary user: some of its capabilities bypass Landlock."""
    if os.geteuid() == 0:
        _check(libc.prctl(_SET_SECUREBITS, _ROOT_IS_NOBODY_SPECIAL, 0, 0, 0))
    _check(libc.capset(struct.pack("=Ii", _CAPABILITY_VERSION, 0), bytes(24)))


def _ruleset(libc: ctypes.CDLL, restriction: Mapping[str, Any]) -> int:
    version = abi()
    network = _CONNECT_AND_BIND if version >= _ABI_NETWORK and not restriction["network"] else 0
    scopes = _SCOPES if version >= _ABI_SCOPES else 0
    handled = struct.pack("=QQQ", _WRITE | _READ_FILE, network, scopes)
    # An older kernel refuses fields it does not know; each has eight bytes.
    fields = 1 + (version >= _ABI_NETWORK) + (version >= _ABI_SCOPES)
    ruleset = _check(libc.syscall(_CREATE_RULESET, handled, 8 * fields, 0))
    try:
        for path in restriction["readable"]:
            _grant(libc, ruleset, Path(path), _READ_FILE)
        for path in restriction["writable"]:
            _grant(libc, ruleset, Path(path), _READ_FILE | _WRITE)
    except BaseException:
        os.close(ruleset)
        raise
    return ruleset


def _grant(libc: ctypes.CDLL, ruleset: int, path: Path, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        # A missing path needs no right, and neither does one in another user's private folder: the
        # command cannot reach it either. Even root cannot, having dropped its capabilities.
        return
    try:
        if not path.is_dir():
            rights &= _FOR_FILES
        rule = struct.pack("=Qi", rights, descriptor)
        _check(libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0))
    finally:
        os.close(descriptor)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
