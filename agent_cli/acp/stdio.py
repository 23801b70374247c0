"""The process's stdin and stdout as the streams of one client, and of nothing else.

The protocol gets descriptors of its own. What is left under the numbers 0 and 1 is empty and
stderr: a stray print, a library or a child process can neither read the client's messages nor write
between ours.
"""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from agent_cli.terminal.background import in_background

_STDIN, _STDOUT, _STDERR = 0, 1, 2
_READ_BYTES: Final = 256 * 1024


class StandardStreams:
    """Reads and writes in threads: a pipe that blocks holds up nothing, and any file will do."""

    def __init__(self, read_from: int, write_to: int) -> None:
        self._read_from = read_from
        self._write_to = write_to

    async def read(self) -> bytes:
        """Return the next bytes; none at the end."""
        return await in_background(self._read_now)

    async def write(self, data: bytes) -> None:
        """Write all of *data*.

        Raises:
            OSError: Nobody reads any more.
        """
        await in_background(lambda: self._write_now(data))

    def _read_now(self) -> bytes:
        try:
            return os.read(self._read_from, _READ_BYTES)
        except OSError:  # a terminal that is gone
            return b""

    def _write_now(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(self._write_to, left) :]


@contextmanager
def standard_streams() -> Generator[StandardStreams]:
    """Take stdin and stdout from the rest of the process while the body runs."""
    sys.stdout.flush()
    taken = os.dup(_STDIN), os.dup(_STDOUT)
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(nothing, _STDIN)
    os.dup2(_STDERR, _STDOUT)
    os.close(nothing)
    try:
        yield StandardStreams(*taken)
    finally:
        sys.stdout.flush()  # to stderr, while that is what it leads to
        os.dup2(taken[0], _STDIN)
        os.dup2(taken[1], _STDOUT)
        # The duplicates stay open: a thread may still read from one, and numbers are used again.
