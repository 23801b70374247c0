"""Run a server as a child process: one JSON-RPC message per line, over its standard streams.

Replaces the SDK's transport, which hangs at a line it cannot decode, buffers a line without limit,
and does not report how the process ended.
"""

import asyncio
import contextlib
import json
import math
import os
import re
import signal
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import chain
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.message import SessionMessage
from mcp_types import (
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)

from agent_cli.contracts.wording import printable
from agent_cli.mcp_client.mended_messages import Item, latest, parsed
from agent_cli.system.json_text import mend_surrogates
from agent_cli.system.leftovers import kill_left, marked
from agent_cli.system.records import dataclass, field
from agent_cli.system.supervisor import supervised

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

LINE_BYTES_MAX = 32 * 1024 * 1024
_BYTES_A_READ = 65_536
# Read without a pause for others: a read may be 32,000 lines of one letter.
_LINES_TOGETHER = 200
_BYTES_NOTED = 400
_LINES_QUOTED = 3
_FLUSH_S = 0.5
# The supervisor gives the server one second after the end of its input, then half a second.
_END_S = 2.0
_TERMINATE_S = 1.0
# A killed process ends at once, but its end is noted late on a busy machine.
_KILLED_S = 5.0
_LAST_MOMENT_S = 0.5
_LOOK_S = 0.25
# For what a child of an ended server goes on to write.
_REST_S = 10.0
_POLL_S = 0.01


def _no_lines() -> deque[str]:
    return deque(maxlen=_LINES_QUOTED)


@dataclass(slots=True, kw_only=True)
class StdioProcess:
    """One run of a server; `transport()` starts it and is used once.

    Attributes:
        command: The program and its arguments.
        folder: Its working directory; None for our own.
        stderr: The file for its standard error.
        has_answered: Whether the handshake is over; only then may it finish its work at the end.
        fault: The reason why we ended the connection, "" if we did not.
        stray: The last lines on its standard output that are no messages.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    folder: str | None
    stderr: TextIO
    has_answered: bool = False
    fault: str = ""
    stray: deque[str] = field(default_factory=_no_lines, init=False)
    _spread: bytearray = field(default_factory=bytearray, init=False)
    _waiting: set[RequestId] = field(default_factory=set[RequestId], init=False)
    _code: int | None = field(default=None, init=False)
    _is_silent: bool = field(default=False, init=False)
    _is_idle: bool = field(default=False, init=False)
    _reads_done: int = field(default=0, init=False)

    @property
    def ended(self) -> str:
        """A clause that says how the process ended; known once the transport is closed."""
        if self.fault:
            return self.fault
        if self._code is None:
            return "it ended"
        if self._code < 128:
            return f"it ended (exit code {self._code})"
        with contextlib.suppress(ValueError):
            return f"it ended (killed by {signal.Signals(self._code - 128).name})"
        return f"it ended (exit code {self._code})"

    @asynccontextmanager
    async def transport(self) -> AsyncGenerator["TransportStreams"]:
        """Start the process; on exit, end it and everything it started.

        Raises:
            OSError: It cannot be started.
        """
        environment = marked(self.environment)
        process = await asyncio.create_subprocess_exec(
            *supervised(self.command),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=self.stderr,
            env=environment,
            cwd=self.folder,
            start_new_session=True,
        )
        try:
            to_us, incoming = anyio.create_memory_object_stream[Item](0)
            # Without a limit: where the server reads nothing, a cancellation would wait for room,
            # for the five seconds that the SDK gives it, and its user with it.
            outgoing, from_us = anyio.create_memory_object_stream[SessionMessage](math.inf)
            async with anyio.create_task_group() as tasks:
                written = anyio.Event()
                tasks.start_soon(self._read, process, to_us)
                tasks.start_soon(self._write, process, from_us, written)
                tasks.start_soon(self._watch, process, to_us)
                try:
                    yield incoming, outgoing
                finally:
                    incoming.close()
                    outgoing.close()
                    with anyio.move_on_after(_FLUSH_S):
                        await written.wait()
                    await self._end(process)
                    tasks.cancel_scope.cancel()
        finally:
            if (process.returncode or 0) < 0:
                # Somebody killed the supervisor, and perhaps the one behind it at the same moment.
                await asyncio.to_thread(kill_left, environment, process.pid)
            await _kill(process)

    async def _read(
        self, process: asyncio.subprocess.Process, to_us: MemoryObjectSendStream[Item]
    ) -> None:
        assert process.stdout is not None
        with to_us:
            async for lines in self._reads(process.stdout):
                try:
                    for item in latest([*chain.from_iterable(map(self._items, lines))]):
                        await to_us.send(item)
                except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                    break
        # Drain its output: a server blocked in a write would not see the end of its input.
        while await process.stdout.read(_BYTES_A_READ):
            pass

    async def _reads(self, stdout: asyncio.StreamReader) -> AsyncIterator[Sequence[bytes]]:
        """Yield the lines that a read ends, some at a time; until the end or a line too long."""
        line = bytearray()
        while chunk := await self._chunk(stdout):
            *ends, rest = chunk.split(b"\n")
            if ends:
                ends[0] = bytes(line + ends[0])
                line.clear()
            for first in range(0, len(ends), _LINES_TOGETHER):
                yield ends[first : first + _LINES_TOGETHER]
            line += rest
            if len(line) > LINE_BYTES_MAX:
                self.fault = f"it sent a line of more than {LINE_BYTES_MAX // 1024 // 1024} MB"
                return
        self.stray.extend(_readable(bytes(self._spread[:_BYTES_NOTED])))
        self._is_silent = True

    async def _chunk(self, stdout: asyncio.StreamReader) -> bytes:
        self._is_idle = True
        chunk = await stdout.read(_BYTES_A_READ)
        self._is_idle = False
        self._reads_done += 1
        return chunk

    def _items(self, line: bytes) -> Sequence[Item]:
        return [item for text in self._texts(line) for item in self._items_of(text)]

    def _texts(self, line: bytes) -> Sequence[bytes]:
        """Return what ends with *line*: itself, or the message that a server wrote indented.

        The protocol allows no line break in a message. "{" alone is no message, so what is indented
        after it belongs to it, up to "}" at the margin.
        """
        spread, bare = self._spread, line.rstrip()
        if bare == b"{" and not spread:
            spread += line + b"\n"
            return ()
        if not spread:
            return (line,)
        is_inside = not bare or line.startswith((b" ", b"\t"))
        is_end = bare == b"}"
        if is_end or (is_inside and len(spread) + len(line) <= LINE_BYTES_MAX):
            spread += line + b"\n"
            if not is_end:
                return ()
        # Without its end it is one fault: one for each of a million lines would take a minute.
        text = bytes(spread)
        spread.clear()
        return (text,) if is_end else (text, *self._texts(line))

    def _items_of(self, text: bytes) -> Sequence[Item]:
        items = parsed(text) if text.strip() else ()
        for item in items:
            if isinstance(item, Exception):
                self.stray.extend(_readable(text[:_BYTES_NOTED]))
            else:
                self._match(item.message)
        return items

    def _match(self, message: JSONRPCMessage) -> None:
        """Note an answer; an error without an id is about the only request that waits."""
        if isinstance(message, JSONRPCError) and message.id is None and len(self._waiting) == 1:
            [message.id] = self._waiting
        if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id is not None:
            self._waiting.discard(coerce_request_id(message.id))

    async def _write(
        self,
        process: asyncio.subprocess.Process,
        from_us: MemoryObjectReceiveStream[SessionMessage],
        written: anyio.Event,
    ) -> None:
        assert process.stdin is not None
        try:
            async with from_us:
                async for item in from_us:
                    if isinstance(item.message, JSONRPCRequest):
                        self._waiting.add(item.message.id)
                    elif isinstance(item.message, JSONRPCNotification):
                        params = item.message.params or {}
                        self._waiting.discard(params.get("requestId", ""))  # cancelled
                    process.stdin.write(_line(item) + b"\n")
                    await process.stdin.drain()
        except OSError:
            pass  # it has ended, which `_watch` notices: its supervisor holds the input open
        finally:
            written.set()

    async def _watch(
        self, process: asyncio.subprocess.Process, to_us: MemoryObjectSendStream[Item]
    ) -> None:
        """End the stream when the process has ended and its output is read.

        Waiting requests learn so that no answer will come, even if a child of the server holds the
        output open.
        """
        while process.returncode is None:  # noqa: ASYNC110 - see `_ended_within`
            await anyio.sleep(_LOOK_S)
        reads_seen = -1
        with anyio.move_on_after(_REST_S):
            while not self._is_idle or self._reads_done != reads_seen:
                reads_seen = self._reads_done
                await anyio.sleep(_LAST_MOMENT_S)
        to_us.close()

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        if self._is_silent:
            if await _ended_within(process, _LAST_MOMENT_S):
                self._code = process.returncode
            else:
                self.fault = self.fault or "it closed its standard output"
        process.stdin.close()
        if self.has_answered and not self.fault and await _ended_within(process, _END_S):
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await _ended_within(process, _TERMINATE_S)


def _line(item: SessionMessage) -> bytes:
    message = item.message
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    except ValueError:
        # A lone surrogate, in an argument that the model wrote.
        text = json.dumps(message.model_dump(by_alias=True, exclude_unset=True))
        return mend_surrogates(text.encode())


async def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill the process if it still runs, and wait until its end is noted, also when cancelled.

    Close its pipes then, which what it started may hold open for a moment.
    """
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        with anyio.CancelScope(shield=True):
            await _ended_within(process, _KILLED_S)
        assert process.stdin is not None
        if process.stdin.transport.get_write_buffer_size():  # a close would wait for its reader
            process.stdin.transport.abort()
        process._transport.close()  # type: ignore[attr-defined] # there is no public name


async def _ended_within(process: asyncio.subprocess.Process, limit_s: float) -> bool:
    with anyio.move_on_after(limit_s):
        # Not `wait()`: it also waits for the end of the pipes, which a grandchild may hold open.
        while process.returncode is None:  # noqa: ASYNC110
            await anyio.sleep(_POLL_S)
    return process.returncode is not None


_TAIL_BYTES = 4096
_CHARS_QUOTED = 300
_COLOUR = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


class StderrTail:
    """A pipe that keeps the last 4 KB; `writer` is the end for the child process.

    Real servers write banners to standard error, so text here is not a sign of failure.
    """

    def __init__(self) -> None:
        self._kept = b""

    def __enter__(self) -> "StderrTail":
        self._reading, writing = os.pipe()
        os.set_blocking(self._reading, False)
        # A TextIO, because the SDK requires one; only its descriptor is used.
        self.writer: TextIO = os.fdopen(writing, "w")
        asyncio.get_running_loop().add_reader(self._reading, self._read)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        asyncio.get_running_loop().remove_reader(self._reading)
        self.writer.close()
        os.close(self._reading)

    def last_lines(self) -> tuple[str, ...]:
        """Return the last non-empty lines, printable, at most 4 KB."""
        while self._read():
            pass
        return _readable(self._kept)

    def _read(self) -> bool:
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._reading, _BYTES_A_READ)
            self._kept = (self._kept + data)[-_TAIL_BYTES:]
            return bool(data)
        return False


def _readable(text: bytes) -> tuple[str, ...]:
    """Return the lines of *text* that are not empty, printable."""
    plain = _COLOUR.sub("", text.decode(errors="replace"))
    lines = (printable(line).strip() for line in plain.splitlines())
    return tuple(line for line in lines if line)


def last_words(lines: Sequence[str]) -> str:
    """Return the end of *lines* as one short line, "" if there are none; no word is cut."""
    words = " / ".join(lines[-_LINES_QUOTED:])
    return words if len(words) <= _CHARS_QUOTED else f"… {_end_of(words)}"


def _end_of(words: str) -> str:
    cut, space, whole = words[-_CHARS_QUOTED:].partition(" ")
    return whole if space else cut
