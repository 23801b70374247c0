"""The server over stdin and stdout: until the client leaves or a signal arrives.

The SDK drops a message that is not valid, such as one with a lone surrogate, without an answer, for
which the client waits; and its reader cannot be cancelled. So standard input passes through a pipe
of ours, repaired, which ends with the client or with the signal.
"""

import asyncio
import json
import os
import select
import threading
from contextlib import suppress
from signal import Signals
from typing import Final

from mcp.server.mcpserver import MCPServer
from mcp_types import INTERNAL_ERROR, jsonrpc_message_adapter

from agent_cli.system import stop_signals
from agent_cli.system.fixed_paths import write_all
from agent_cli.system.json_text import mend_surrogates
from agent_cli.system.shapes import is_array, is_object

_STDIN: Final = 0
_BYTES_A_READ: Final = 65_536
_END_LIMIT_S: Final = 5.0
_NOT_VALID: Final = "(this message is not valid JSON-RPC 2.0)"


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
    """A pipe in place of standard input, through which its lines pass repaired."""

    def __init__(self) -> None:
        self._client_input = os.dup(_STDIN)
        reading, self._writing = os.pipe()
        self._ended, self._ending = os.pipe()
        os.dup2(reading, _STDIN)
        os.close(reading)
        threading.Thread(target=self._pump, name="stdin", daemon=True).start()

    def end(self) -> None:
        """End the input, as if the client had closed it."""
        os.write(self._ending, b"\0")

    def _pump(self) -> None:
        line = bytearray()
        with os.fdopen(self._writing, "wb", buffering=0) as pipe, suppress(OSError):
            while data := self._read():
                *ends, rest = data.split(b"\n")
                for end in ends:
                    write_all(pipe.fileno(), repaired(bytes(line + end)))
                    line.clear()
                line += rest
            if line:
                write_all(pipe.fileno(), repaired(bytes(line)))

    def _read(self) -> bytes:
        ready, _, _ = select.select([self._client_input, self._ended], [], [])
        return b"" if self._ended in ready else os.read(self._client_input, _BYTES_A_READ)


def repaired(line: bytes) -> bytes:
    """Return *line* with its message mended; a batch, as in revision 2025-03-26, becomes lines.

    One that is not valid and waits for an answer becomes one that the SDK answers with an error.
    """
    line = mend_surrogates(line)
    try:
        jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        with suppress(ValueError, RecursionError):
            written = json.loads(line)
            batch = written if is_array(written) else [written]
            return b"".join(json.dumps(each).encode() + b"\n" for each in map(_answerable, batch))
    return line + b"\n"


def _answerable(message: object) -> object:
    with suppress(ValueError):
        jsonrpc_message_adapter.validate_python(message, by_name=False)
        return message
    id = message.get("id") if is_object(message) else None
    if not is_object(message) or not isinstance(id, int | str):
        return message  # the SDK drops it, and nobody can wait for an answer
    if "method" not in message and message.keys() & {"result", "error"}:
        return {
            "jsonrpc": "2.0",
            "id": id,
            "error": {"code": INTERNAL_ERROR, "message": _NOT_VALID},
        }
    return {"jsonrpc": "2.0", "id": id, "method": _NOT_VALID}
