"""Build the kernel's filter program that refuses system calls to commands.

Knows numbers and instructions only; bubblewrap or the launched process loads the program.

Source: linux/seccomp.h, linux/bpf_common.h, and the tables of system calls of both machines.
"""

import errno
import os
import socket
import struct
from collections.abc import Iterator, Sequence

from agent_cli.system.records import dataclass

_LOAD, _EQUAL, _ANY_BIT, _AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_AND = 0x54
_NUMBER_AT, _MACHINE_AT, _ARGUMENTS_AT = 0, 4, 16
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
_X32 = 0x40000000

# All namespaces except time, whose bit clone() uses for something else.
_NEW_NAMESPACE = 0x7E020000
_TYPE_FOR_THE_USER = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: inject keys into the user's terminal
# FS_IOC_SETFLAGS and FS_IOC_FSSETXATTR (chattr), FS_IOC_SETVERSION, FS_IOC_ENABLE_VERITY, and
# FS_IOC_SET_ENCRYPTION_POLICY: a file that is open for reading is enough for them.
_SET_ATTRIBUTES = (0x40086602, 0x401C5820, 0x40086604, 0x40806685, 0x800C6613)
# All requests of btrfs, bcachefs and f2fs, which make and remove subvolumes.
_OF_FILE_SYSTEMS = (0x9400, 0xBC00, 0xF500)
_FAMILIES = (0, socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, 16)  # 16: netlink


@dataclass(frozen=True, slots=True)
class _Machine:
    audit_id: int
    denied: tuple[int, ...]
    changes: tuple[int, ...]
    lasting: tuple[int, ...]
    on_process: tuple[int, ...]
    modes: tuple[tuple[int, int], ...]
    set_priority: int
    clone: int
    clone3: int
    unshare: int
    ioctl: int
    socket: int


# ptrace, process_vm_readv, process_vm_writev, bpf, add_key, request_key, keyctl, io_uring_setup,
# io_uring_enter, io_uring_register, userfaultfd, perf_event_open, mount, umount2, pivot_root,
# setns, kcmp; then open_tree, move_mount, fsopen, fsconfig, fsmount, fspick, mount_setattr,
# pidfd_getfd, open_tree_attr, which have the same numbers on all machines.
# And for a command that may change nothing: chmod, fchmod, fchmodat, chown, fchown, lchown,
# fchownat, utime, utimes, futimesat, utimensat, setxattr and removexattr in their three forms;
# fchmodat2, setxattrat, removexattrat and file_setattr have the same numbers everywhere.
_NEWER_CHANGES = (452, 463, 466, 469)
_SET_USER_ID = 0o4000
# What outlives the command, and belongs to other programs too: shmget, shmat, shmctl, semget,
# semop, semctl, semtimedop, msgget, msgsnd, msgrcv, msgctl, mq_open, mq_unlink, and ioprio_set.
# Those whose first argument may be another process: sched_setparam, sched_setscheduler,
# sched_setaffinity, sched_setattr, prlimit64. Those that set a mode, with the number of that
# argument: chmod, fchmod, fchmodat, fchmodat2.
_NEWER = (425, 426, 427, 428, 429, 430, 431, 432, 433, 438, 442, 467)
_MACHINES = {
    "x86_64": _Machine(
        0xC000003E,
        (101, 310, 311, 321, 248, 249, 250, 323, 298, 165, 166, 155, 308, 312, *_NEWER),
        (
            *(90, 91, 268, 92, 93, 94, 260, 132, 235, 261, 280, 188, 189, 190, 197, 198, 199),
            *_NEWER_CHANGES,
        ),
        (29, 30, 31, 64, 65, 66, 220, 68, 69, 70, 71, 240, 241, 251),
        (142, 144, 203, 314, 302),
        ((90, 1), (91, 1), (268, 2), (452, 2)),
        set_priority=141,
        clone=56,
        clone3=435,
        unshare=272,
        ioctl=16,
        socket=41,
    ),
    "aarch64": _Machine(
        0xC00000B7,
        (117, 270, 271, 280, 217, 218, 219, 282, 241, 40, 39, 41, 268, 272, *_NEWER),
        (52, 53, 55, 54, 88, 5, 6, 7, 14, 15, 16, *_NEWER_CHANGES),
        (194, 196, 195, 190, 193, 191, 192, 186, 189, 188, 187, 180, 181, 30),
        (118, 119, 122, 274, 261),
        ((52, 1), (53, 2), (452, 2)),
        set_priority=140,
        clone=220,
        clone3=435,
        unshare=97,
        ioctl=29,
        socket=198,
    ),
}


def has_filter() -> bool:
    """Return whether there is a filter for this machine."""
    return os.uname().machine in _MACHINES


def filter_program(
    *, families: Sequence[int] = _FAMILIES, machine: str = "", read_only: bool = False
) -> bytes | None:
    """Return the filter, an array of `struct sock_filter`; None for an unknown machine.

    It refuses to inspect other processes, create namespaces and mounts, use kernel keyrings,
    io_uring, bpf, userfaultfd and perf (the source of most kernel exploits), inject keys into a
    terminal, make a program that others run with the user's rights (set-user-ID; the bit for the
    group is common on folders), and open sockets of families other than *families*. With
    *read_only* it also refuses what Landlock cannot: to change modes, owners, times and attributes
    of files, to use memory and queues that outlive the command, and to change priorities and limits
    of other processes.
    """
    known = _MACHINES.get(machine or os.uname().machine)
    if known is None:
        return None
    program = _program(known, families, read_only=read_only)
    return b"".join(struct.pack("HBBI", *instruction) for instruction in program)


_Instruction = tuple[int, int, int, int]


def _program(
    machine: _Machine, families: Sequence[int], *, read_only: bool
) -> Iterator[_Instruction]:
    yield (_LOAD, 0, 0, _MACHINE_AT)
    yield (_EQUAL, 1, 0, machine.audit_id)
    yield _fail(errno.ENOSYS)
    yield (_LOAD, 0, 0, _NUMBER_AT)
    # The x32 calls have numbers of their own, which the checks below do not recognise.
    yield (_AT_LEAST, 0, 1, _X32)
    yield _fail(errno.ENOSYS)
    more = (*machine.changes, *machine.lasting) if read_only else ()
    for number in (*machine.denied, *more):
        yield (_EQUAL, 0, 1, number)
        yield _fail(errno.EPERM)
    if read_only:
        yield from _for_itself(machine)
    # clone3 has its flags in memory, which a filter cannot read; ENOSYS makes libraries use clone.
    yield (_EQUAL, 0, 1, machine.clone3)
    yield _fail(errno.ENOSYS)
    for number in (machine.clone, machine.unshare):
        yield from _when(number, 0, [(_ANY_BIT, 0, 1, _NEW_NAMESPACE), _fail(errno.EPERM)])
    for number, argument in machine.modes:
        yield from _when(number, argument, [(_ANY_BIT, 0, 1, _SET_USER_ID), _fail(errno.EPERM)])
    for request in (*_TYPE_FOR_THE_USER, *(_SET_ATTRIBUTES if read_only else ())):
        yield from _when(machine.ioctl, 1, [(_EQUAL, 0, 1, request), _fail(errno.EPERM)])
    if read_only:
        groups = [(_EQUAL, 0, 1, group) for group in _OF_FILE_SYSTEMS]
        checks = [check for group in groups for check in (group, _fail(errno.EPERM))]
        yield from _when(machine.ioctl, 1, [(_AND, 0, 0, 0xFF00), *checks])
    known = [(_EQUAL, len(families) - at, 0, family) for at, family in enumerate(families)]
    yield from _when(machine.socket, 0, [*known, _fail(errno.EACCES)])
    yield (_RETURN, 0, 0, _ALLOW)


def _for_itself(machine: _Machine) -> Iterator[_Instruction]:
    """Yield checks that a process changes only its own priority, processors and limits."""
    only_zero = [(_EQUAL, 1, 0, 0), _fail(errno.EPERM)]
    for number in (*machine.on_process, machine.set_priority):
        yield from _when(number, 0, only_zero)
    yield from _when(machine.set_priority, 1, only_zero)


def _when(number: int, argument: int, checks: Sequence[_Instruction]) -> Iterator[_Instruction]:
    """Yield *checks* on the low half of an argument, applied to the call *number* only."""
    yield (_EQUAL, 0, len(checks) + 2, number)
    yield (_LOAD, 0, 0, _ARGUMENTS_AT + 8 * argument)
    yield from checks
    yield (_LOAD, 0, 0, _NUMBER_AT)


def _fail(number: int) -> _Instruction:
    return (_RETURN, 0, 0, _FAIL | number)
