"""The process of a server: no run of it leaves one behind whose end is not known."""

import asyncio
import os
import sys

import anyio
import pytest

from agent_cli.mcp_client.stdio import StdioProcess

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


async def test_end_of_a_process_is_known_after_its_connection_was_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python would warn of a child that still runs, in whatever it does next."""
    create = asyncio.create_subprocess_exec
    started: list[asyncio.subprocess.Process] = []

    async def noted(*command: str, **rest: object) -> asyncio.subprocess.Process:
        started.append(await create(*command, **rest))  # type: ignore[arg-type]  # passed on
        return started[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", noted)
    server = StdioProcess(
        command=[sys.executable, "-c", STUBBORN],
        environment={"PATH": os.defpath},
        folder=None,
        stderr=sys.__stderr__ or sys.stderr,
    )

    with anyio.CancelScope() as scope:
        async with server.transport():
            scope.cancel()  # every wait from here on is cancelled, too

    assert [process.returncode is not None for process in started] == [True]
