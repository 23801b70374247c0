"""The server over stdin: what ends it, and within which time."""

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from typing import cast

import pytest
from mcp.server.mcpserver import MCPServer

from agent_cli.mcp_server.stdio import RepairedInput, repaired, serve_stdio
from agent_cli.system.stop_signals import STOP_SIGNALS
from tests.tables import each_row
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


PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
NOT_VALID = "(this message is not valid JSON-RPC 2.0)"
REFUSED = PING | {"method": NOT_VALID}


@each_row(
    ("line", "passed_on"),
    [
        (json.dumps(PING), [PING]),
        (
            r'{"jsonrpc": "2.0", "id": 1, "method": "half \ud83d"}',
            [PING | {"method": "half \ufffd"}],
        ),
        ('{"id": 1, "method": "ping"}', [REFUSED]),
        ('{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]}', [REFUSED]),
        ('{"jsonrpc": "2.0", "id": 1}', [REFUSED]),
        (json.dumps([PING, {"jsonrpc": "2.0", "method": "note"}, {"id": 1, "method": 2}]), None),
        ("[]", []),
    ],
)
def test_message_that_is_not_valid_is_passed_on_as_one_that_is_answered(
    line: str, passed_on: list[object] | None
) -> None:
    """A client waits for the answer to each request, however it wrote that."""
    lines = repaired(line.encode()).splitlines()

    batch = [PING, {"jsonrpc": "2.0", "method": "note"}, REFUSED]
    assert [json.loads(each) for each in lines] == (batch if passed_on is None else passed_on)


def test_answer_that_is_not_valid_is_passed_on_as_an_error() -> None:
    """A run that has asked the client's user would wait for it for ever."""
    [message] = repaired(b'{"jsonrpc": "2.0", "id": 1, "result": 5}').splitlines()

    assert json.loads(message)["error"]["message"] == NOT_VALID


@pytest.mark.parametrize("line", ["not JSON", "5", '{"jsonrpc": "2.0", "id": 1.5, "method": "x"}'])
def test_line_that_nobody_can_be_answered_for_stays_one(line: str) -> None:
    assert repaired(line.encode()).splitlines() == [line.encode()]


@pytest.mark.usefixtures("_own_process")
def test_input_arrives_by_lines_whatever_its_chunks_are() -> None:
    reading, writing = os.pipe()
    os.dup2(reading, 0)
    os.close(reading)
    RepairedInput()
    lines = [json.dumps(PING | {"id": number}) for number in range(3)]
    text = "\n".join(lines).encode()
    for at in range(0, len(text), 7):
        os.write(writing, text[at : at + 7])
    os.close(writing)

    with os.fdopen(os.dup(0), "rb") as arrived:
        assert arrived.read().decode().splitlines() == lines
