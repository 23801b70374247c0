"""A shell command that can always be ended, with everything it started.

Knows processes and pipes; what is run, and what is said about it, is the caller's business.
A process that puts itself into a new session (a daemon) leaves the group and ends with the command:
by the sandbox's process namespace, or where there is none by who stands between (see supervisor).
"""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from agent_cli.sandbox import Confinement
from agent_cli_tools.command_line import CommandLine
from agent_cli_tools.output import OutputBuffer
from agent_cli_tools.process_groups import Member, descendants, group_members

GRACE_S = 1.0
"""From SIGTERM to SIGKILL."""

DRAIN_S = 0.3
"""How long output is read on after the command's end, if somebody still holds the pipe."""

_STATUS_BYTES = 16
_POLL_S = 0.02

# The shell we start, bubblewrap, and its process 1; the command is the child of the last.
_LAYERS_ABOVE_NESTED = 3


class Command:
    """A started command: a process group whose members die with us, whatever kills us.

    Attributes:
        put_back: Once it is closed, a sentence about each protected file it had changed.
    """

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        link: socket.socket,
        output: "_Reader",
        confinement: Confinement,
    ) -> None:
        self._process = process
        self._link = link
        self._output = output
        self._confinement = confinement
        self._exit_code: int | None = None
        self.put_back: Sequence[str] = ()
        output.on_flood = self.kill

    @property
    def group(self) -> int:
        """The process group's id; `kill -- -ID` in a shell ends the command."""
        return self._process.pid

    async def wait(self) -> int:
        """Return the exit code as a shell counts it (128 + N after signal N).

        What the command started in the background may still run.
        """
        if self._exit_code is None:
            loop = asyncio.get_running_loop()
            status = await loop.sock_recv(self._link, _STATUS_BYTES)
            # Without a status the whole group is gone: it killed itself.
            self._exit_code = int(status) if status else 128 - self._process.wait()
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
        members = group_members(self.group)
        return [one for one in members if self.group not in (one.pid, one.parent)]

    async def stop(self) -> None:
        """End the whole group: SIGTERM, `GRACE_S` later SIGKILL. Cancelled, it kills at once."""
        if self._is_closed():
            return
        try:
            self._ask_to_end()
            if not await self._ends_within(GRACE_S):
                self._signal(signal.SIGKILL)
            await self.drain()
        finally:
            self.close()

    def has_ended(self) -> bool:
        """Whether the command and all it started have ended."""
        if self._is_closed():
            return True
        if self._exit_code is None and not self._has_status():
            return False
        return not self.others()

    def close(self) -> None:
        """End what still runs, at once, and free everything. May be called again."""
        if self._is_closed():
            return
        if not (self.has_ended() and self._dismiss()):
            self._signal(signal.SIGKILL)
            self._process.wait()
        self._link.close()
        self._output.close()
        self.put_back = self._confinement.release()

    def kill(self) -> None:
        """End the whole group at once; `wait` and `close` are still to be called."""
        self._signal(signal.SIGKILL)

    def _ask_to_end(self) -> None:
        """Send SIGTERM to the command and all it started, but not to what holds its namespace."""
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

    def _dismiss(self) -> bool:
        """Let watcher and shell go, who need a moment for it; return whether they did."""
        try:
            self._link.send(b"\n")
            self._process.wait(timeout=GRACE_S)
        except (OSError, subprocess.TimeoutExpired):
            # Killed already, or stopped, by a signal the command sent to its group.
            return False
        return True

    def _is_closed(self) -> bool:
        return self._link.fileno() < 0

    def _has_status(self) -> bool:
        try:
            self._link.recv(_STATUS_BYTES, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        return True

    def _signal(self, number: signal.Signals) -> None:
        # As long as we have not waited for the shell, its number is nobody else's.
        if self._process.returncode is None:
            os.killpg(self.group, number)


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

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - Protocol's signature
        self._buffer.close()
        self.ended.set()

    def close(self) -> None:
        """Stop reading."""
        if self._transport is not None:
            self._transport.close()


async def start(
    line: CommandLine, output: OutputBuffer, on_output: Callable[[], None] = lambda: None
) -> Command:
    """Start *line*; what it prints goes to *output*, and *on_output* is called after each piece.

    Standard input is /dev/null, and there is no terminal to ask for a password at.

    Raises:
        OSError: It could not be started, e.g. the text is too long for one argument.
        ValueError: The text holds what no argument can, e.g. NUL.
    """
    try:
        process, ours, reading = _spawn(line)
    except BaseException:
        line.confinement.release()
        raise
    reader = _Reader(output, on_output, bytes_max=line.output_bytes_max)
    command = Command(process, ours, reader, line.confinement)
    await asyncio.get_running_loop().connect_read_pipe(lambda: reader, os.fdopen(reading, "rb", 0))
    return command


def _spawn(line: CommandLine) -> "tuple[subprocess.Popen[bytes], socket.socket, int]":
    """Return the process, our end of its socket, and the descriptor its output comes from."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    reading, writing = os.pipe()
    try:
        process = _in_right_thread(line, theirs.fileno(), writing)
        _first_to_go(process.pid)
        ours.send(b"\n")
        return process, ours, reading
    except BaseException:
        ours.close()
        os.close(reading)
        raise
    finally:
        theirs.close()
        os.close(writing)


def _first_to_go(pid: int) -> None:
    """Let the kernel kill *pid*, or what it starts, before others when there is no memory left.

    No limit instead: RLIMIT_AS and RLIMIT_DATA count for each process alone, and what is reserved
    like what is used, so that sanitizers and virtual machines would not even start.
    """
    # By us, because Landlock lets nobody in it write there, and in bubblewrap nobody can.
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/oom_score_adj").write_text("1000")


def _in_right_thread(line: CommandLine, stdin: int, stdout: int) -> "subprocess.Popen[bytes]":
    def run() -> "subprocess.Popen[bytes]":
        if line.confinement.enter is not None:
            line.confinement.enter()
        return subprocess.Popen(
            line.arguments(),
            stdin=stdin,
            stdout=stdout,
            cwd=line.cwd,
            env={**line.environment, **line.confinement.environment},
            pass_fds=line.confinement.descriptors,
            start_new_session=True,
        )

    if line.confinement.enter is None:
        return run()
    # What restricts a thread restricts it for good, and what it starts; so it starts nothing else.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(run).result()
