"""The process of a server: no run of it leaves one behind whose end is not known."""

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Sequence

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification

from agent_cli.mcp_client import stdio
from agent_cli.mcp_client.mended_messages import Item, parsed
from agent_cli.mcp_client.stdio import StdioProcess
from tests.waiting import until

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


async def test_end_of_a_process_is_known_after_its_connection_was_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python would warn of a child that still runs, in whatever it does next."""
    started = _processes(monkeypatch)
    server = _server(STUBBORN)

    with anyio.CancelScope() as scope:
        async with server.transport():
            scope.cancel()  # every wait from here on is cancelled, too

    assert [process.returncode is not None for process in started] == [True]


async def test_message_never_waits_for_a_server_that_reads_nothing() -> None:
    """The cancellation of a call did, and Ctrl-C with it, behind a call that fills the pipe."""
    long = JSONRPCNotification(jsonrpc="2.0", method="long", params={"text": "x" * 1_000_000})
    short = JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled")
    server = _server("import time; time.sleep(600)")
    sent = 0

    async with server.transport() as (_incoming, outgoing):
        with anyio.move_on_after(2):
            for message in (long, long, short):
                await outgoing.send(SessionMessage(message))
                sent += 1

    assert sent == 3


def test_no_pipe_stays_open_behind_a_supervisor_that_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a busy machine it has no time to end by itself; Python warns of each open pipe then."""
    long = JSONRPCNotification(jsonrpc="2.0", method="long", params={"text": "x" * 1_000_000})
    monkeypatch.setattr(stdio, "_TERMINATE_S", 0.01)
    started = _processes(monkeypatch)

    async def send() -> None:
        async with _server(STUBBORN).transport() as (_incoming, outgoing):
            await outgoing.send(SessionMessage(long))

    asyncio.run(send())

    assert [process.returncode for process in started] == [-signal.SIGKILL]
    started.clear()
    gc.collect()


async def test_thousands_of_lines_in_one_read_leave_turns_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """65,536 lines that are no messages held the prompt for four seconds."""
    total = longest = since = 0

    def counted(line: bytes) -> Sequence[Item]:
        nonlocal total, longest, since
        total, since = total + 1, since + 1
        longest = max(longest, since)
        return parsed(line)

    async def take_turns() -> None:
        nonlocal since
        while True:
            await asyncio.sleep(0)
            since = 0

    monkeypatch.setattr(stdio, "parsed", counted)
    transport = _server(r"print('x\n' * 5000)").transport()
    async with transport as (incoming, _outgoing), asyncio.TaskGroup() as tasks:
        others = tasks.create_task(take_turns())
        async for _item in incoming:
            pass
        others.cancel()

    assert total == 5000
    assert longest < 1000


async def test_what_an_ended_server_sent_arrives_however_busy_its_reader_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A second after its end the rest was dropped, as on a busy machine."""
    monkeypatch.setattr(stdio, "_LOOK_S", 0)
    monkeypatch.setattr(stdio, "_LAST_MOMENT_S", 0)
    started = _processes(monkeypatch)
    message = '{"jsonrpc": "2.0", "method": "x"}'
    server = _server(f"print('{message}\\n' * 3)")
    taken = 0

    async with server.transport() as (incoming, _outgoing):
        async for _item in incoming:
            taken += 1
            await until(lambda: started[0].returncode is not None)
            for _ in range(20):  # time enough to notice the end
                await asyncio.sleep(0)

    assert taken == 3


def _processes(monkeypatch: pytest.MonkeyPatch) -> list[asyncio.subprocess.Process]:
    """Return what grows by each process that is started from now on."""
    create = asyncio.create_subprocess_exec
    started: list[asyncio.subprocess.Process] = []

    async def noted(*command: str, **rest: object) -> asyncio.subprocess.Process:
        started.append(await create(*command, **rest))  # type: ignore[arg-type]  # passed on
        return started[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", noted)
    return started


def _server(program: str) -> StdioProcess:
    return StdioProcess(
        command=[sys.executable, "-c", program],
        environment={"PATH": os.defpath},
        folder=None,
        stderr=sys.__stderr__ or sys.stderr,
    )
