"""The entries created in a folder, reported by the kernel so that none can be missed."""

import ctypes
import os
import struct
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from agent_cli.sandbox.guarded_files import HOME_NAMES, PROTECTED_NAMES

_IN_CREATE, _IN_MOVED_TO = 0x100, 0x80
_EVENT = struct.Struct("iIII")
_LIBC = ctypes.CDLL(None, use_errno=True)


@contextmanager
def only_what_is_named(folder: Path, command: str) -> Generator[None]:
    """Fail if a file that makes programs act appears in *folder* without *command* naming it.

    The sandbox once created empty mount points there. Editors, `git clone X .` and listings of the
    folder saw them; after a crash they stayed.
    """
    if sys.platform != "linux":
        yield
        return
    watch = _LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    assert watch >= 0
    try:
        _LIBC.inotify_add_watch(watch, os.fsencode(folder), _IN_CREATE | _IN_MOVED_TO)
        yield
        created = set(_names(watch))
    finally:
        os.close(watch)
    ours = {name for name in created & {*PROTECTED_NAMES, *HOME_NAMES} if name not in command}
    assert ours == set(), f"{command} has not made {ours}"


def _names(watch: int) -> Iterator[str]:
    while True:
        try:
            events = os.read(watch, 1_000_000)
        except BlockingIOError:
            return
        while events:
            *_, length = _EVENT.unpack_from(events)
            yield os.fsdecode(events[_EVENT.size :][:length].rstrip(b"\0"))
            events = events[_EVENT.size + length :]
