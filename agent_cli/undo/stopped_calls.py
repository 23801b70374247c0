"""The system calls that change files by name: stop them in the kernel, receive them, answer them.

Those of a command stand still until they go on or fail. Which they are is known by numbers, and the
kernel's filter program stops them by these. Imports little: see `system/launcher`.

Source: seccomp_unotify(2), linux/seccomp.h, linux/bpf_common.h, and the tables of system calls of
both machines.
"""

import contextlib
import ctypes
import errno
import os
import struct
import sys
from collections.abc import Iterator
from fcntl import ioctl
from functools import cache
from typing import Literal, NamedTuple, TypeAlias

Kind: TypeAlias = Literal[
    "open", "openat2", "gone", "move", "made", "link", "bind", "write", "meta"
]

WRITES = os.O_WRONLY | os.O_RDWR | os.O_TRUNC | os.O_CREAT

_LOAD, _EQUAL, _ANY_BIT, _AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_NUMBER_AT, _MACHINE_AT, _ARGUMENTS_AT = 0, 4, 16
_ALLOW, _NOTIFY, _FAIL = 0x7FFF0000, 0x7FC00000, 0x00050000
_X32 = 0x40000000
_IO_URING_SETUP = 425

_RECEIVE, _SEND, _SET_FLAGS = 0xC0502100, 0xC0182101, 0x40082104
_SYNC_WAKE_UP = 1  # the answer runs on the caller's processor; kernel 6.6
_GO_ON = 1
_SET_FILTER, _IS_AVAILABLE, _SIZES = 1, 2, 3
_NEW_LISTENER, _WAIT_KILLABLE = 1 << 3, 1 << 5
_NO_NEW_PRIVILEGES = 38
_NOTIFICATION = struct.Struct("=QIIi IQ6Q")
_ANSWER = struct.Struct("=QqiI")
_LIBC = ctypes.CDLL(None, use_errno=True)


class Call(NamedTuple):
    """One system call.

    Attributes:
        kind: The change that it makes.
        folder: Which argument is the descriptor that a relative path starts at; None: the current
            directory.
        path: Which argument is the address of the path; None: the folder's descriptor is the file.
        flags: Which argument has flags; None for none.
        follows: Whether it follows a link at the end of the path, without flags that say so.
        target: For a move: the arguments for its second path; for a link: for the linked file.
    """

    kind: Kind
    folder: int | None
    path: int | None
    flags: int | None = None
    follows: bool = False
    target: tuple[int | None, int] = (None, 0)


# The same numbers on all machines: openat2, fchmodat2, setxattrat, removexattrat, file_setattr.
_NEWER = {
    437: Call("openat2", 0, 1, follows=True),
    452: Call("meta", 0, 1, flags=3, follows=True),
    463: Call("meta", 0, 1, flags=2, follows=True),
    466: Call("meta", 0, 1, flags=2, follows=True),
    469: Call("meta", 0, 1, flags=4, follows=True),
}
_X86_64 = _NEWER | {
    # open, creat, openat
    2: Call("open", None, 0, flags=1, follows=True),
    85: Call("open", None, 0, follows=True),
    257: Call("open", 0, 1, flags=2, follows=True),
    # unlink, rmdir, unlinkat
    87: Call("gone", None, 0),
    84: Call("gone", None, 0),
    263: Call("gone", 0, 1),
    # rename, renameat, renameat2
    82: Call("move", None, 0, target=(None, 1)),
    264: Call("move", 0, 1, target=(2, 3)),
    316: Call("move", 0, 1, flags=4, target=(2, 3)),
    # mkdir, mkdirat, mknod, mknodat, symlink, symlinkat, link, linkat
    83: Call("made", None, 0),
    258: Call("made", 0, 1),
    133: Call("made", None, 0),
    259: Call("made", 0, 1),
    88: Call("made", None, 1),
    266: Call("made", 1, 2),
    86: Call("link", None, 1, target=(None, 0)),
    265: Call("link", 2, 3, flags=4, target=(0, 1)),
    49: Call("bind", None, 1),
    76: Call("write", None, 0, follows=True),  # truncate; ftruncate needs a file open for writing
    # chmod, fchmod, fchmodat, chown, fchown, lchown, fchownat
    90: Call("meta", None, 0, follows=True),
    91: Call("meta", 0, None),
    268: Call("meta", 0, 1, follows=True),
    92: Call("meta", None, 0, follows=True),
    93: Call("meta", 0, None),
    94: Call("meta", None, 0),
    260: Call("meta", 0, 1, flags=4, follows=True),
    # utime, utimes, futimesat, utimensat
    132: Call("meta", None, 0, follows=True),
    235: Call("meta", None, 0, follows=True),
    261: Call("meta", 0, 1, follows=True),
    280: Call("meta", 0, 1, flags=3, follows=True),
    # setxattr, lsetxattr, fsetxattr, removexattr, lremovexattr, fremovexattr
    188: Call("meta", None, 0, follows=True),
    189: Call("meta", None, 0),
    190: Call("meta", 0, None),
    197: Call("meta", None, 0, follows=True),
    198: Call("meta", None, 0),
    199: Call("meta", 0, None),
}
_AARCH64 = _NEWER | {
    56: Call("open", 0, 1, flags=2, follows=True),
    35: Call("gone", 0, 1),
    # renameat, renameat2
    38: Call("move", 0, 1, target=(2, 3)),
    276: Call("move", 0, 1, flags=4, target=(2, 3)),
    # mkdirat, mknodat, symlinkat, linkat
    34: Call("made", 0, 1),
    33: Call("made", 0, 1),
    36: Call("made", 1, 2),
    37: Call("link", 2, 3, flags=4, target=(0, 1)),
    200: Call("bind", None, 1),
    45: Call("write", None, 0, follows=True),
    # fchmod, fchmodat, fchownat, fchown, utimensat
    52: Call("meta", 0, None),
    53: Call("meta", 0, 1, follows=True),
    54: Call("meta", 0, 1, flags=4, follows=True),
    55: Call("meta", 0, None),
    88: Call("meta", 0, 1, flags=3, follows=True),
    # setxattr, lsetxattr, fsetxattr, removexattr, lremovexattr, fremovexattr
    5: Call("meta", None, 0, follows=True),
    6: Call("meta", None, 0),
    7: Call("meta", 0, None),
    14: Call("meta", None, 0, follows=True),
    15: Call("meta", None, 0),
    16: Call("meta", 0, None),
}


class Machine(NamedTuple):
    """A machine type by its kernel name, with its watched calls and the number of `seccomp`."""

    audit_id: int
    calls: dict[int, Call]
    seccomp: int


MACHINES = {
    "x86_64": Machine(0xC000003E, _X86_64, 317),
    "aarch64": Machine(0xC00000B7, _AARCH64, 277),
}


def machine() -> Machine | None:
    """Return this machine; None if its calls are unknown."""
    return MACHINES.get(os.uname().machine)


@cache
def filter_program(name: str) -> bytes:
    """Return the filter for the machine *name*, an array of `struct sock_filter`.

    It stops the watched calls; `open` only where it may write. Calls that it cannot judge, of
    another instruction set and by io_uring, do not exist for the command. What the sandbox's own
    filter refuses stays refused.
    """
    return b"".join(struct.pack("HBBI", *instruction) for instruction in _program(MACHINES[name]))


_Instruction = tuple[int, int, int, int]


def _program(of: Machine) -> Iterator[_Instruction]:
    missing = (_RETURN, 0, 0, _FAIL | errno.ENOSYS)
    yield (_LOAD, 0, 0, _MACHINE_AT)
    yield (_EQUAL, 1, 0, of.audit_id)
    yield missing
    yield (_LOAD, 0, 0, _NUMBER_AT)
    yield (_AT_LEAST, 0, 1, _X32)
    yield missing
    yield (_EQUAL, 0, 1, _IO_URING_SETUP)
    yield missing
    others: list[int] = []
    for number, call in sorted(of.calls.items()):
        if call.kind != "open" or call.flags is None:
            others.append(number)
            continue
        yield (_EQUAL, 0, 4, number)
        yield (_LOAD, 0, 0, _ARGUMENTS_AT + 8 * call.flags)
        yield (_ANY_BIT, 0, 1, WRITES)
        yield (_RETURN, 0, 0, _NOTIFY)
        yield (_RETURN, 0, 0, _ALLOW)
    for at, number in enumerate(others):
        yield (_EQUAL, len(others) - at, 0, number)
    yield (_RETURN, 0, 0, _ALLOW)
    yield (_RETURN, 0, 0, _NOTIFY)


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
    action, sizes = struct.pack("=I", _NOTIFY), ctypes.create_string_buffer(6)
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
