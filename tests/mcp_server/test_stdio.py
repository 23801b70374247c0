"""The server over stdin: what ends it, and within which time."""

import asyncio
import os
import signal
from collections.abc import Iterator
from typing import cast

import pytest
from mcp.server.mcpserver import MCPServer

from agent_cli.mcp_server.stdio import serve_stdio
from agent_cli.system.stop_signals import STOP_SIGNALS
from tests.waiting import StoppedClock


class Hanging:
    """A server with a run that does not end."""

    def __init__(self) -> None:
        self.is_serving = asyncio.Event()
        self.was_cancelled = False

    async def run_stdio_async(self) -> None:
        self.is_serving.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise


@pytest.fixture
def _own_process() -> Iterator[None]:
    """Bring back what a server takes of its process: stdin and the handlers of signals."""
    stdin = os.dup(0)
    handlers = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    yield
    os.dup2(stdin, 0)
    os.close(stdin)
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("_own_process")
async def test_run_that_does_not_end_is_cancelled_five_seconds_after_the_signal() -> None:
    """The client keeps the pipe open, and a tool of the run hangs."""
    clock, server = StoppedClock(), Hanging()
    serving = asyncio.create_task(serve_stdio(cast("MCPServer", server)))
    await server.is_serving.wait()

    os.kill(os.getpid(), signal.SIGTERM)
    await clock.pass_s(0)
    await clock.pass_s(4.9)
    was_cancelled = server.was_cancelled
    await clock.pass_s(0.2)

    assert (was_cancelled, server.was_cancelled) == (False, True)
    assert await serving == 128 + signal.SIGTERM
