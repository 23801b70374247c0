"""The pause of a batch whose machines share no files: one actor keeps it, each run has a socket.

An agent asks the socket of its run, the worker of Ray behind it asks the actor.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

from agent_cli.system.shared_pauses import PauseState, Step

PAUSE_VARIABLE: Final = "AGENT_CLI_RETRY__SHARED_FILE"
SOCKET: Final = "pause.sock"
_LINE_BYTES_MAX: Final = 4_096


class PauseKeeper:
    """The state of the pause; an actor of Ray, so its methods run one at a time."""

    def __init__(self) -> None:
        self._state = PauseState()

    def take(self, step: Step, asked_delay_s: float | None) -> float:
        """Note *step*; see `PauseState.take`."""
        return self._state.take(step, asked_delay_s, time.time())


@asynccontextmanager
async def pause_socket(folder: Path, keeper: Any) -> AsyncGenerator[Path]:  # Any: a handle of Ray
    """Answer the steps of an agent with *keeper*; yield the socket it finds it at."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, ValueError):
            step, asked_delay_s = json.loads(await reader.readline())
            try:
                taken = keeper.take.remote(step, asked_delay_s)
                wait_s = await asyncio.wrap_future(taken.future())
            except Exception:
                wait_s = 0.0  # the node of the actor is lost: nothing is paused any more
            writer.write(f"{wait_s}\n".encode())
            await writer.drain()
        writer.close()

    path = folder / SOCKET
    server = await asyncio.start_unix_server(answer, path, limit=_LINE_BYTES_MAX)
    async with server:
        yield path
