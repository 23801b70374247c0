"""The system calls that change files by name, and the kernel's filter program that stops them.

Knows numbers and instructions only. Imports little: see `system/launcher`.

Source: linux/seccomp.h, linux/bpf_common.h, and the tables of system calls of both machines.
"""

import errno
import os
import struct
from collections.abc import Iterator
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
