"""A shell command that can always be ended, with everything it started.

Knows processes and pipes; what is run, and what is said about it, is the caller's business.
A process that puts itself into a new session (a daemon) leaves the group and ends with the command:
by the sandbox's process namespace, or where there is none by its keeper (see `launcher`).
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Sequence

from agent_cli.sandbox import Confinement
from agent_cli.system.launching import KeeperLink, Launcher
from agent_cli_tools.command_line import CommandLine
from agent_cli_tools.output import OutputBuffer
from agent_cli_tools.process_groups import Member, descendants, group_members

GRACE_S = 1.0
"""From SIGTERM to SIGKILL."""

DRAIN_S = 0.3
"""How long output is read on after the command's end, if somebody still holds the pipe."""

_MESSAGE_BYTES = 65_536
_END_LIMIT_S = 2.0
_POLL_S = 0.02

# Bubblewrap, its process 1, and the shell that stays; the command is the child of the last.
_LAYERS_ABOVE_NESTED = 3


class RunningCommand:
    """A started command: a process group whose members die with us, whatever kills us.

    Attributes:
        put_back: Once it is closed, a sentence about each protected file it had changed.
        ended_with_it: Once it has ended, the names of what the sandbox ended with it.
    """

    def __init__(
        self, group: int, link: KeeperLink, output: "_Reader", confinement: Confinement
    ) -> None:
        self.group = group
        self._link = link
        self._output = output
        self._confinement = confinement
        self._exit_code: int | None = None
        self.put_back: Sequence[str] = ()
        self.ended_with_it: Sequence[str] = ()
        output.on_flood = self.kill

    @property
    def exit_code(self) -> int | None:
        """The exit code as a shell counts it; None while it runs, or when it was stopped."""
        return self._exit_code

    async def wait(self) -> int:
        """Return the exit code as a shell counts it (128 + N after signal N).

        What the command started in the background may still run.
        """
        self._note_end()  # It may have been told together with the start.
        while self._exit_code is None:
            await _receive(self._link)
            self._note_end()
        return self._exit_code

    async def drain(self) -> None:
        """Wait until the output has ended, but not long: a background process may hold it."""
        try:
            async with asyncio.timeout(DRAIN_S):
                await self._output.ended.wait()
        except TimeoutError:
            return

    def others(self) -> list[Member]:
        """Return what runs besides the command itself: processes it left in the background."""
        # In a namespace of its own all of it ends with the command.
        if self._confinement.nested and self._exit_code is not None:
            return []
        return [one for one in group_members(self.group) if one.pid != self.group]

    async def stop(self) -> None:
        """End the whole group: SIGTERM, `GRACE_S` later SIGKILL. Cancelled, it kills at once."""
        if self._is_closed():
            return
        try:
            self.terminate()
            if not await self._ends_within(GRACE_S):
                self.kill()
            await self.drain()
        finally:
            self.close()

    def has_ended(self) -> bool:
        """Whether the command and all it started have ended."""
        if self._is_closed():
            return True
        if self._exit_code is None:
            with contextlib.suppress(BlockingIOError):
                self._link.take(self._link.socket.recv(_MESSAGE_BYTES))
            self._note_end()
        return self._exit_code is not None and not self.others()

    def close(self) -> None:
        """End what still runs, at once, and free everything. May be called again."""
        if not self._is_closed():
            self._output.close()
            self._free()

    async def finish(self) -> None:
        """Close a command that has ended, beside the event loop: looking at the disk takes time."""
        if not self._is_closed():
            self._output.close()
            await asyncio.to_thread(self._free)

    def kill(self) -> None:
        """End the whole group at once; `wait` and `close` are still to be called."""
        self._signal(signal.SIGKILL)

    def _free(self) -> None:
        if not self._link.end(_END_LIMIT_S):
            self.kill()
        moved = self._link.found("moved")
        self.put_back = self._confinement.release(moved["moved"] if moved else ())

    def _note_end(self) -> None:
        if status := self._link.found("status"):
            self._exit_code = int(status["status"])
            self.ended_with_it = str(status["left"]).split("\n")[:-1]
        elif self._link.is_closed:
            # The keeper was killed, and what it kept with it.
            self._exit_code = 128 + signal.SIGKILL

    def terminate(self) -> None:
        """Send SIGTERM to the command and all it started, but not to what holds its namespace."""
        if self._is_closed():
            return
        if not self._confinement.nested:
            self._signal(signal.SIGTERM)
            return
        for member in descendants(self.group, below=_LAYERS_ABOVE_NESTED):
            with contextlib.suppress(ProcessLookupError):
                os.kill(member.pid, signal.SIGTERM)

    async def _ends_within(self, limit_s: float) -> bool:
        try:
            async with asyncio.timeout(limit_s):
                await self.wait()
                while self.others():  # noqa: ASYNC110 - no children of ours, nobody tells us
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            return False
        return True

    def _is_closed(self) -> bool:
        return self._link.socket.fileno() < 0

    def _signal(self, number: signal.Signals) -> None:
        # As long as the keeper lives, the number of its child is nobody else's.
        if not self._link.is_closed:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.group, number)


async def _receive(link: KeeperLink) -> None:
    received = await asyncio.get_running_loop().sock_recv(link.socket, _MESSAGE_BYTES)
    link.take(received)


class _Reader(asyncio.Protocol):
    """Feeds a buffer from a pipe; goes on while a background process holds the other end."""

    def __init__(
        self, buffer: OutputBuffer, on_output: Callable[[], None], *, bytes_max: int
    ) -> None:
        self._buffer = buffer
        self._on_output = on_output
        self._bytes_max = bytes_max
        self._transport: asyncio.BaseTransport | None = None
        self.ended = asyncio.Event()
        self.on_flood: Callable[[], None] = lambda: None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer.add(data)
        self._on_output()
        if self._buffer.total_bytes > self._bytes_max:
            self.on_flood()
            self.close()  # what comes before the kill arrives is as much as the machine can write

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - Protocol's signature
        self._buffer.close()
        self.ended.set()

    def close(self) -> None:
        """Stop reading."""
        if self._transport is not None:
            self._transport.close()


async def start(
    launcher: Launcher,
    line: CommandLine,
    output: OutputBuffer,
    on_output: Callable[[], None] = lambda: None,
) -> RunningCommand:
    """Start *line*; what it prints goes to *output*, and *on_output* is called after each piece.

    Standard input is /dev/null, and there is no terminal to ask for a password at.

    Raises:
        OSError: It could not be started, e.g. the text is too long for one argument.
        ValueError: The text holds what no argument can, e.g. NUL.
    """
    try:
        link, reading = launcher.launch(line.order())
    except BaseException:
        line.confinement.release(())
        raise
    try:
        link.socket.setblocking(False)
        while not link.messages and not link.is_closed:
            await _receive(link)
        if (started := link.found("pid")) is None:
            failed = link.found("failed")
            raise OSError(failed["failed"] if failed else "the program that starts it ended")
    except BaseException:
        os.close(reading)
        link.end(_END_LIMIT_S)
        line.confinement.release(())
        raise
    reader = _Reader(output, on_output, bytes_max=line.output_bytes_max)
    command = RunningCommand(started["pid"], link, reader, line.confinement)
    pipe = os.fdopen(reading, "rb", 0)
    try:
        await asyncio.get_running_loop().connect_read_pipe(lambda: reader, pipe)
    except BaseException:  # cancelled: nobody else knows that it runs
        pipe.close()
        command.close()
        raise
    return command
