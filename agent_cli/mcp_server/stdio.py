"""The server over stdin and stdout: until the client leaves or a signal arrives.

The SDK drops a message with a lone surrogate without an answer, for which the client waits; and its
reader cannot be cancelled. So standard input passes through a pipe of ours, repaired, which ends
with the client or with the signal.
"""

import asyncio
import os
import select
import threading
from contextlib import suppress
from signal import Signals
from typing import Final

from mcp.server.mcpserver import MCPServer

from agent_cli.system import stop_signals
from agent_cli.system.fixed_paths import write_all
from agent_cli.system.json_text import SurrogateMender

_STDIN: Final = 0
_BYTES_A_READ: Final = 65_536
_END_LIMIT_S: Final = 5.0


async def serve_stdio(server: MCPServer) -> int:
    """Serve until the client leaves or a signal arrives, end the runs, return the exit code."""
    signals: list[Signals] = []
    input = RepairedInput()

    async with asyncio.TaskGroup() as group:
        serving = group.create_task(server.run_stdio_async())

        def stop(number: Signals) -> None:
            signals.append(number)
            input.end()
            asyncio.get_running_loop().call_later(_END_LIMIT_S, serving.cancel)

        with stop_signals.taken(stop):
            await asyncio.wait([serving])
            code = stop_signals.exit_code_of(signals[0]) if signals else 0
            stop_signals.end_with(code)
    return code


class RepairedInput:
    """A pipe in place of standard input, through which its text passes repaired."""

    def __init__(self) -> None:
        self._given = os.dup(_STDIN)
        reading, self._writing = os.pipe()
        self._ended, self._ending = os.pipe()
        os.dup2(reading, _STDIN)
        os.close(reading)
        threading.Thread(target=self._pump, name="stdin", daemon=True).start()

    def end(self) -> None:
        """End the input, as if the client had closed it."""
        os.write(self._ending, b"\0")

    def _pump(self) -> None:
        mender = SurrogateMender()
        with os.fdopen(self._writing, "wb", buffering=0) as pipe, suppress(OSError):
            while data := self._read():
                write_all(pipe.fileno(), mender.feed(data))
            write_all(pipe.fileno(), mender.flush())

    def _read(self) -> bytes:
        ready, _, _ = select.select([self._given, self._ended], [], [])
        return b"" if self._ended in ready else os.read(self._given, _BYTES_A_READ)
