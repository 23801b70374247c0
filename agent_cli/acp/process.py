"""The process of `agent-cli acp`: one client on stdin and stdout, and the signals that end it."""

import asyncio
import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from agent_cli.acp.ports import SessionBuilder
from agent_cli.acp.server import AcpServer
from agent_cli.system import stop_signals
from agent_cli.system.event_loop import in_background
from agent_cli.system.fixed_paths import write_all


async def serve_process(program: SessionBuilder) -> int:
    """Serve the client until it leaves or a signal arrives; return the exit code."""
    received: list[signal.Signals] = []
    with standard_streams() as streams:
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(AcpServer(program, streams).serve())

            def stop(number: signal.Signals) -> None:
                received.append(number)
                serving.cancel()

            with stop_signals.taken(stop):
                await asyncio.wait([serving])
                code = stop_signals.exit_code_of(received[0]) if received else 0
                stop_signals.end_with(code)
    return code


# The process's stdin and stdout, reserved for the streams of one client.
#
# The protocol uses duplicated descriptors. Descriptor 0 then leads to /dev/null and descriptor 1
# to stderr: a stray print, a library or a child process can neither read the client's messages nor
# write between ours.

_STDIN, _STDOUT, _STDERR = 0, 1, 2
_READ_BYTES: Final = 256 * 1024


class StandardStreams:
    """Reads and writes in threads: a blocked pipe delays nothing else, and any file type works."""

    def __init__(self, read_from: int, write_to: int) -> None:
        self._read_from = read_from
        self._write_to = write_to

    async def read(self) -> bytes:
        """Return the next bytes; none at the end."""
        return await in_background(self._read_now)

    async def write(self, data: bytes) -> None:
        """Write all of *data*.

        Raises:
            OSError: The reader is gone.
        """
        await in_background(lambda: write_all(self._write_to, data))

    def _read_now(self) -> bytes:
        try:
            return os.read(self._read_from, _READ_BYTES)
        except OSError:  # a terminal that was closed
            return b""


@contextmanager
def standard_streams() -> Generator[StandardStreams]:
    """Reserve stdin and stdout while the body runs."""
    sys.stdout.flush()
    taken = os.dup(_STDIN), os.dup(_STDOUT)
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(nothing, _STDIN)
    os.dup2(_STDERR, _STDOUT)
    os.close(nothing)
    try:
        yield StandardStreams(*taken)
    finally:
        sys.stdout.flush()  # to stderr, while descriptor 1 still leads there
        os.dup2(taken[0], _STDIN)
        os.dup2(taken[1], _STDOUT)
        # The duplicates stay open: a thread may still read from one, and numbers are reused.
