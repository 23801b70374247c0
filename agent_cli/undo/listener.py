"""Receive the calls of a command that stand still in the kernel, and let them go on or fail.

Imports little: see `system/launcher`.

Source: seccomp_unotify(2), linux/seccomp.h.
"""

import contextlib
import ctypes
import errno
import os
import struct
import sys
from fcntl import ioctl
from typing import NamedTuple

from agent_cli.undo.calls import filter_program, machine

_RECEIVE, _SEND, _SET_FLAGS = 0xC0502100, 0xC0182101, 0x40082104
_SYNC_WAKE_UP = 1  # the answer runs on the caller's processor; kernel 6.6
_GO_ON = 1
_SET_FILTER, _IS_AVAILABLE, _SIZES = 1, 2, 3
_NEW_LISTENER, _WAIT_KILLABLE = 1 << 3, 1 << 5
_USER_NOTIFY = 0x7FC00000
_NO_NEW_PRIVILEGES = 38
_NOTIFICATION = struct.Struct("=QIIi IQ6Q")
_ANSWER = struct.Struct("=QqiI")
_LIBC = ctypes.CDLL(None, use_errno=True)


class StoppedCall(NamedTuple):
    """A call that stands still.

    Attributes:
        id: For the answer.
        pid: The thread that called.
    """

    id: int
    pid: int
    number: int
    arguments: tuple[int, ...]


def why_missing() -> str:
    """Return why this machine cannot stop calls, or ""; a container may forbid it all the same."""
    if sys.platform != "linux":
        return "only Linux can stop the changes of commands"
    if (here := machine()) is None:
        return f"the system calls of {os.uname().machine} are unknown"
    action, sizes = struct.pack("=I", _USER_NOTIFY), ctypes.create_string_buffer(6)
    if _LIBC.syscall(here.seccomp, _IS_AVAILABLE, 0, action) < 0:
        return "the kernel is older than 5.0"
    if _LIBC.syscall(here.seccomp, _SIZES, 0, sizes) < 0:
        return "the kernel is older than 5.0"
    if struct.unpack("=3H", sizes.raw) != (_NOTIFICATION.size, _ANSWER.size, 64):
        return "the kernel describes stopped calls in an unknown way"
    return ""


def install() -> int:
    """Stop the watched calls of this thread, and of what it starts; return the listener.

    Raises:
        OSError: The kernel or a filter above us forbids it. EBUSY: there is a listener already.
    """
    here = machine()
    if here is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    code = filter_program(here)
    text = ctypes.create_string_buffer(code, len(code))
    # struct sock_fprog: the number of instructions, then (aligned) their address.
    program = struct.pack("@HP", len(code) // 8, ctypes.addressof(text))
    descriptor = _installed(here.seccomp, program) if os.geteuid() == 0 else -1
    if descriptor < 0:  # root without capabilities needs it as well
        if _LIBC.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
            raise _last_error()
        descriptor = _installed(here.seccomp, program)
    if descriptor < 0:
        raise _last_error()
    with contextlib.suppress(OSError):
        ioctl(descriptor, _SET_FLAGS, _SYNC_WAKE_UP)
    return descriptor


def _installed(seccomp: int, program: bytes) -> int:
    flags = _NEW_LISTENER | _WAIT_KILLABLE
    descriptor = int(_LIBC.syscall(seccomp, _SET_FILTER, flags, program))
    if descriptor < 0 and ctypes.get_errno() == errno.EINVAL:  # before kernel 5.19
        descriptor = int(_LIBC.syscall(seccomp, _SET_FILTER, _NEW_LISTENER, program))
    return descriptor


def receive(listener: int) -> StoppedCall | None:
    """Return the next call; None if its thread was killed. Poll first: it blocks without a call."""
    found = bytearray(_NOTIFICATION.size)
    try:
        ioctl(listener, _RECEIVE, found)
    except OSError:
        return None
    id, pid, _flags, number, _machine, _at, *arguments = _NOTIFICATION.unpack(found)
    return StoppedCall(id, pid, number, tuple(arguments))


def let_go_on(listener: int, id: int) -> None:
    """Let the kernel do the call."""
    # The thread may have been killed.
    with contextlib.suppress(OSError):
        ioctl(listener, _SEND, _ANSWER.pack(id, 0, 0, _GO_ON))


def fail(listener: int, id: int, number: int) -> None:
    """Let the call fail with an error number."""
    with contextlib.suppress(OSError):
        ioctl(listener, _SEND, _ANSWER.pack(id, 0, -number, 0))


def text_of(pid: int, address: int) -> str:
    """Return the path at *address* in the memory of *pid*.

    Raises:
        OSError: It cannot be read, or is too long for a path.
    """
    return os.fsdecode(_memory(pid, address, _PATH_BYTES_MAX, until=b"\0"))


def bytes_of(pid: int, address: int, size: int) -> bytes:
    """Return *size* bytes of the memory of *pid*.

    Raises:
        OSError: They cannot be read.
    """
    return _memory(pid, address, size)


_PATH_BYTES_MAX = 4096
_PAGE_BYTES = 4096
_BUFFER = ctypes.create_string_buffer(_PATH_BYTES_MAX)
_HERE = ctypes.addressof(_BUFFER)


def _memory(pid: int, address: int, size: int, until: bytes = b"") -> bytes:
    """Read page by page, since the page after the end may be missing."""
    found = b""
    while len(found) < size:
        part = min(size - len(found), _PAGE_BYTES - address % _PAGE_BYTES)
        ours, theirs = struct.pack("@PN", _HERE, part), struct.pack("@PN", address, part)
        got = int(_LIBC.process_vm_readv(pid, ours, 1, theirs, 1, 0))
        if got <= 0:
            raise _last_error()
        found += ctypes.string_at(_HERE, got)
        address += got
        if until and until in found:
            return found.partition(until)[0]
    if until:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
    return found


def _last_error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
