"""The process of `agent-cli acp`: one client on stdin and stdout, and the signals that end it."""

import asyncio
import signal

from agent_cli.acp.ports import SessionBuilder
from agent_cli.acp.server import AcpServer
from agent_cli.acp.stdio import standard_streams
from agent_cli.system import stop_signals


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
