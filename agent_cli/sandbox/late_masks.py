"""Start bubblewrap, and hide many paths in its sandbox by mounts of our own before it is complete.

Bubblewrap reads the whole table of mounts for each of its mounts, so that a thousand take seconds,
and many repositories could be made like that. Here each is one system call. Bubblewrap waits while
it builds the sandbox: the last of its operations copies a pipe into a file, until that ends. Our
process becomes bubblewrap, and a grandchild of it enters the namespaces, in which both the old and
the new tree are there, and mounts.

Nothing starts with a part of the masks: behind that, bubblewrap waits for a byte from a pipe. It
holds both ends of it, and only the grandchild writes, at the end. Its parent ends bubblewrap if the
grandchild fails, or is killed.

A program of its own, outside of the sandbox; imports little: see `launcher`.
"""

import contextlib
import ctypes
import fcntl
import os
import select
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from agent_cli.system.keeper import die_with_parent
from agent_cli.system.orphans import children_of

_NEW_USERS, _NEW_MOUNTS = 0x1000_0000, 0x2_0000
_READ_ONLY, _NO_SET_USER, _NO_DEVICES, _REMOUNT, _BIND = 1, 2, 4, 32, 4096
_FILLED = "/run/.agent-cli-masked"
_LIMIT_MS = 60_000
_LIBC = ctypes.CDLL(None, use_errno=True)


def words(covers: Sequence[str], paths: Sequence[str], command: Sequence[str]) -> list[str]:
    """Return the arguments of `main`; more options of bubblewrap may follow.

    Args:
        covers: The unreadable file and the unreadable folder, real paths.
        paths: What is hidden, files and folders.
        command: Bubblewrap and its options, behind which the paths are there to mount on.
    """
    return [*covers, str(len(command)), str(len(paths)), *paths, *command]


def main() -> None:
    """Become bubblewrap, with the masks; the arguments are `words`."""
    *covers, at, count = sys.argv[1:5]
    paths, command = sys.argv[5 : 5 + int(count)], sys.argv[5 + int(count) :]
    filled, gate = os.pipe()
    # Both ends in one descriptor, so that no end of another process opens it.
    held, other_end = os.pipe()
    both = os.open(f"/proc/self/fd/{held}", os.O_RDWR | os.O_CLOEXEC)
    os.close(held)
    os.close(other_end)
    fcntl.fcntl(gate, fcntl.F_SETPIPE_SZ, 1)  # the least, which is filled
    os.set_blocking(gate, False)
    os.write(gate, bytes(fcntl.fcntl(gate, fcntl.F_GETPIPE_SZ)))
    bubblewrap = os.getpid()
    if os.fork() == 0:
        os.close(filled)
        masks = os.fork()
        if masks == 0:
            _finish(bubblewrap, gate, both, covers, paths)
        os.close(gate)
        die_with_parent(bubblewrap)
        _, status = os.waitpid(masks, 0)
        for each in (*_children_but(os.getpid(), bubblewrap), bubblewrap) if status else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        os._exit(0)
    os.close(gate)
    options = [*command[1 : int(at)], "--file", str(filled), _FILLED, *command[int(at) :]]
    for descriptor in (filled, both):
        os.set_inheritable(descriptor, True)
    os.execv(command[0], [command[0], "--block-fd", str(both), *options])


def _finish(
    bubblewrap: int, gate: int, both: int, covers: Sequence[str], paths: Sequence[str]
) -> NoReturn:
    """Mask *paths*, let the command start, and exit; with 1 if it must not start."""
    status = 1
    try:
        _mask(_built(bubblewrap, gate), covers, paths)
        os.close(gate)
        os.write(both, b"+")
        status = 0
    except OSError as error:
        os.write(2, f"the paths to hide could not be hidden: {error}\n".encode())
    finally:
        os._exit(status)


def _built(bubblewrap: int, gate: int) -> int:
    """Return the first process of the sandbox, once that is built and waits at the *gate*."""
    poll = select.poll()
    poll.register(gate, select.POLLOUT)
    if [(gate, select.POLLOUT)] != poll.poll(_LIMIT_MS):
        raise OSError("no sandbox was built")
    [inside] = _children_but(os.getppid(), bubblewrap)
    return inside


def _children_but(own: int, bubblewrap: int) -> Sequence[int]:
    return [each for each in children_of(bubblewrap) if each != own]


def _mask(inside: int, covers: Sequence[str], paths: Sequence[str]) -> None:
    """Mount a cover over each of *paths* in the namespaces of *inside*."""
    spaces = [os.open(f"/proc/{inside}/ns/{name}", os.O_RDONLY) for name in ("user", "mnt")]
    for space, kind in zip(spaces, (_NEW_USERS, _NEW_MOUNTS), strict=True):
        _checked(_LIBC.setns(space, kind), "setns")
    file, folder = (_prepared(f"/oldroot{cover}") for cover in covers)
    for path in paths:
        to = f"/newroot{path}"
        _mount(folder if os.path.isdir(to) else file, to, _BIND)  # noqa: PTH112 - little imported


def _prepared(cover: str) -> str:
    """Make *cover* a mount that nothing is written to; a mount of it is like it."""
    # A restriction of a mount that was made outside cannot be taken away here.
    restricted = _READ_ONLY | _NO_SET_USER | _NO_DEVICES | os.statvfs(cover).f_flag & os.ST_NOEXEC
    _mount(cover, cover, _BIND)
    _mount("none", cover, _REMOUNT | _BIND | restricted)
    return cover


def _mount(source: str, path: str, flags: int) -> None:
    names = os.fsencode(source), os.fsencode(path)
    _checked(_LIBC.mount(*names, None, ctypes.c_ulong(flags), None), path)


def _checked(result: int, name: str) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)
