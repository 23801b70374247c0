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
        return _why_refused()
    if _LIBC.syscall(here.seccomp, _SIZES, 0, sizes) < 0:
        return _why_refused()
    if struct.unpack("=3H", sizes.raw) != (_NOTIFICATION.size, _ANSWER.size, 64):
        return "the kernel describes stopped calls in an unknown way"
    return ""


def _why_refused() -> str:
    if ctypes.get_errno() in (errno.EPERM, errno.EACCES):
        return "the system forbids to stop calls, as some containers do"
    return "the kernel is older than 5.0"


def install() -> int:
    """Stop the watched calls of this thread, and of what it starts; return the listener.

    Raises:
        OSError: The kernel or a filter above us forbids it. EBUSY: there is a listener already.
    """
    here = machine()
    if here is None or sys.platform != "linux":  # elsewhere the numbers are of other calls
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    code = filter_program(os.uname().machine)
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
    """Wait for the next call, and return it; None if its thread was killed."""
    found = bytearray(_NOTIFICATION.size)
    try:
        ioctl(listener, _RECEIVE, found)
    except OSError:
        return None
    id, pid, _flags, number, _machine, _at, *arguments = _NOTIFICATION.unpack(found)
    return StoppedCall(id, pid, number, tuple(arguments))


def let_go_on(listener: int, id: int) -> None:
    """Let the kernel do the call."""
    try:  # noqa: SIM105 - thousands of times
        ioctl(listener, _SEND, _ANSWER.pack(id, 0, 0, _GO_ON))
    except OSError:  # the thread may have been killed
        pass


def fail(listener: int, id: int, number: int) -> None:
    """Let the call fail with an error number."""
    with contextlib.suppress(OSError):
        ioctl(listener, _SEND, _ANSWER.pack(id, 0, -number, 0))


def text_of(pid: int, address: int) -> str:
    """Return the path at *address* in the memory of *pid*.

    Raises:
        OSError: It cannot be read, or is too long for a path.
    """
    found = b""
    while len(found) < _PATH_BYTES_MAX:
        # Few paths are long, and the page after the end may be missing.
        size = min(_FIRST_BYTES if not found else _PAGE_BYTES, _PAGE_BYTES - address % _PAGE_BYTES)
        got = _read(pid, address, size)
        text = _BUFFER.value  # up to a NUL
        found += text
        if len(text) < got:
            return os.fsdecode(found)
        address += got
    raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))


def bytes_of(pid: int, address: int, size: int) -> bytes:
    """Return *size* bytes, at most a page, of the memory of *pid*.

    Raises:
        OSError: They cannot be read.
    """
    found = b""
    while len(found) < size:
        rest = min(size - len(found), _PAGE_BYTES - address % _PAGE_BYTES)
        got = _read(pid, address, rest)
        found += _BUFFER.raw[:got]
        address += got
    return found


_PATH_BYTES_MAX = 4096
_PAGE_BYTES = 4096
_FIRST_BYTES = 256
_BUFFER = ctypes.create_string_buffer(_PAGE_BYTES + 1)
_PART = struct.Struct("@PN")
_HERE, _THERE = ctypes.create_string_buffer(_PART.size), ctypes.create_string_buffer(_PART.size)
_BUFFER_AT = ctypes.addressof(_BUFFER)


def _read(pid: int, address: int, size: int) -> int:
    """Read into the buffer, with a NUL behind; return how many bytes."""
    _PART.pack_into(_HERE, 0, _BUFFER_AT, size)
    _PART.pack_into(_THERE, 0, address, size)
    got: int = _LIBC.process_vm_readv(pid, _HERE, 1, _THERE, 1, 0)
    if got <= 0:
        raise _last_error()
    _BUFFER[got] = b"\0"
    return got


def _last_error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
