"""Run a shell command that can always be ended together with every process it started.

It handles processes and pipes only; callers choose the command and report the result. A process
that starts a new session (a daemon) leaves the group, but still ends with the command: through the
sandbox's process namespace, or without one through its keeper (see `launcher`).
"""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Sequence
from dataclasses import replace

from agent_cli.sandbox import Confinement
from agent_cli.system.launching import KeeperLink, Launcher
from agent_cli.undo.logs import CommandQuestion, Loss, question_of
from agent_cli_tools.command_line import CommandLine, Member, descendants, group_members
from agent_cli_tools.output import OutputBuffer
from agent_cli_tools.stoppable import unstoppable

GRACE_S = 1.0
"""Seconds from SIGTERM to SIGKILL."""

DRAIN_S = 0.3
"""Seconds to keep reading output after the command's end while a process holds the pipe."""

_END_LIMIT_S = 2.0
_POLL_S = 0.02

# Bubblewrap, its process 1, and the waiting shell; the command is the child of the last.
_LAYERS_ABOVE_NESTED = 3


class TimeLimits:
    """The time limits of one command, which stand still while a person is asked about it."""

    def __init__(self) -> None:
        self._running: list[asyncio.Timeout] = []
        self._stood_s = 0.0
        self._since_s = 0.0
        self._left_s: dict[asyncio.Timeout, float] = {}
        self._questions = 0

    @contextlib.asynccontextmanager
    async def within(self, limit_s: float) -> AsyncGenerator[None]:
        """Raise TimeoutError if the body takes longer than *limit_s*, without the questions."""
        async with asyncio.timeout(limit_s) as limit:
            self._running.append(limit)
            if self._questions:
                self._stop(limit)
            try:
                yield
            finally:
                self._running.remove(limit)
                self._left_s.pop(limit, None)

    @property
    def stood_still_s(self) -> float:
        """The seconds for which they have stood still."""
        return self._stood_s + (time.monotonic() - self._since_s if self._questions else 0.0)

    @contextlib.contextmanager
    def standing_still(self) -> Generator[None]:
        """Let no time limit run in the body."""
        self._questions += 1
        if self._questions == 1:
            self._since_s = time.monotonic()
            for limit in self._running:
                self._stop(limit)
        try:
            yield
        finally:
            self._questions -= 1
            if self._questions == 0:
                self._stood_s += time.monotonic() - self._since_s
                now_s = asyncio.get_running_loop().time()
                for limit, left_s in self._left_s.items():
                    limit.reschedule(now_s + left_s)
                self._left_s.clear()

    def _stop(self, limit: asyncio.Timeout) -> None:
        if not limit.expired():
            now_s = asyncio.get_running_loop().time()
            self._left_s[limit] = (limit.when() or now_s) - now_s
            limit.reschedule(None)


class RunningCommand:
    """A started command: a process group that ends with this process, however that is killed.

    Attributes:
        put_back: After closing, a sentence about each protected file that was restored, and about
            the hosts that it reached or did not; for a job, also about what it changed.
        ended_with_it: After its end, the names of processes that the sandbox ended with it.
        has_begun: After its end, whether the sandbox was built, so that the command ran.
        confinement: Its sandbox.
        decide: Decides whether it goes on with what it deletes or overwrites; None: it does not.
        refused: What it was refused; None for nothing.
        limits: The time limits of `ends_within`.
        changes: Returns a sentence about the files that it changed, once it has ended.
    """

    def __init__(
        self, group: int, link: KeeperLink, output: "_Reader", confinement: Confinement
    ) -> None:
        self.group = group
        self._link = link
        self._output = output
        self.confinement = confinement
        self._exit_code: int | None = None
        self._freeing: asyncio.Future[None] | None = None
        self._is_freed = False
        self.put_back: Sequence[str] = ()
        self.ended_with_it: Sequence[str] = ()
        self.has_begun = True
        self.decide: Callable[[CommandQuestion], Awaitable[bool]] | None = None
        self.refused: Loss | None = None
        self._answered = 0
        self._deciding: asyncio.Task[None] | None = None
        self.limits = TimeLimits()
        self.changes: Callable[[], Sequence[str]] = tuple
        output.on_flood = self.kill

    @property
    def exit_code(self) -> int | None:
        """The exit code in shell convention; None while it runs, or if it was stopped."""
        return self._exit_code

    @property
    def outcome(self) -> str:
        """The exit code in words; "" while it runs, or when it was stopped."""
        return "" if self._exit_code is None else f"exit {self._exit_code}"

    @property
    def stood_still_s(self) -> float:
        """The seconds for which it waited for the answer to a question."""
        return self.limits.stood_still_s

    async def wait(self) -> int:
        """Wait for the exit code in shell convention (128 + N after signal N).

        Background processes of the command may still run.
        """
        # The keeper may have reported it together with the start.
        while not self._has_status():
            await self._link.until(lambda: self._has_status() or bool(self._question()))
            if self._link.is_closed:
                break
            if self._question():
                await self._decide()
        self._note_end()
        assert self._exit_code is not None
        return self._exit_code

    async def ends_within(self, limit_s: float) -> bool:
        """Wait for the exit code at most *limit_s*; the time of a question does not count."""
        try:
            async with self.limits.within(limit_s):
                await self.wait()
        except TimeoutError:
            return False
        return True

    async def drain(self) -> None:
        """Wait briefly for the end of the output, which a background process may keep open."""
        await _within(DRAIN_S, self._output.ended.wait())

    def others(self) -> list[Member]:
        """Return the processes that the command left in the background."""
        # In its own namespace they all end with the command.
        if self.confinement.nested and self._exit_code is not None:
            return []
        return [one for one in group_members(self.group) if one.pid != self.group]

    async def stop(self) -> None:
        """End the group: SIGTERM, then SIGKILL after `GRACE_S`, or at once if cancelled."""
        if self._is_closed():
            return
        self.decide = None
        try:
            self.terminate()
            if not await _within(GRACE_S, self._ended()):
                self.kill()
            await self.drain()
        finally:
            await self.finish()

    def has_ended(self) -> bool:
        """Whether the command and all processes it started have ended."""
        if self._is_closed():
            return True
        if self._exit_code is None:
            self._link.receive_now()
            self._note_end()
            if self._question() and (self._deciding is None or self._deciding.done()):
                # A job: nobody waits for it. It ends with the command, which ends the question.
                self._deciding = asyncio.get_running_loop().create_task(self._decide())
        return self._exit_code is not None and not self.others()

    def close(self) -> None:
        """Kill remaining processes and free all resources; blocks. May be called repeatedly."""
        if not self._is_closed():
            self._is_freed = True
            self._stop_waiting()
            self._free()

    async def finish(self) -> None:
        """Do as `close`, in a thread, because checking files takes time."""
        if not self._is_closed():
            self._stop_waiting()
            self._freeing = unstoppable(self._free)
        if self._freeing is not None:
            await asyncio.shield(self._freeing)

    def kill(self) -> None:
        """Kill the whole group; `wait` and `close` must still be called."""
        self._signal(signal.SIGKILL)

    def _has_status(self) -> bool:
        return self._link.found("status") is not None

    def _question(self) -> CommandQuestion | None:
        """Return the question for which the command stands still."""
        asked = [each["asks"] for each in self._link.messages if "asks" in each]
        if len(asked) <= self._answered or self._has_status():
            return None
        return question_of(asked[self._answered])

    async def _decide(self) -> None:
        """Answer the question; the limits of time stand still meanwhile."""
        question = self._question()
        if question is None:
            return
        with self.limits.standing_still():
            goes_on = await self.decide(question) if self.decide else False
        self._answered += 1
        if not goes_on and isinstance(question, Loss):
            self.refused = question
        self._link.answer(goes_on=goes_on)

    def _stop_waiting(self) -> None:
        """Wait neither for output nor for an answer; only in the event loop, unlike `_free`."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: nothing waits
            self._output.close()
            if self._deciding:
                self._deciding.cancel()

    def _free(self) -> None:
        if not self._link.end(_END_LIMIT_S):
            self.kill()
        self.put_back = [*self.confinement.release(), *self.changes()]

    def _note_end(self) -> None:
        if status := self._link.found("status"):
            self._exit_code = int(status["status"])
            lines = str(status["left"]).split("\n")[:-1]
            self.ended_with_it = lines[1:]
            self.has_begun = not self.confinement.nested or bool(lines)
        elif self._link.is_closed:
            # The keeper was killed, and its processes with it.
            self._exit_code = 128 + signal.SIGKILL

    def terminate(self) -> None:
        """Send SIGTERM to the command and its descendants, not to what builds its sandbox."""
        if self._is_closed():
            return
        if not self.confinement.nested:
            self._signal(signal.SIGTERM)
            return
        for member in descendants(self.group, below=_LAYERS_ABOVE_NESTED):
            with contextlib.suppress(ProcessLookupError):
                os.kill(member.pid, signal.SIGTERM)

    async def _ended(self) -> None:
        await self.wait()
        while self.others():  # noqa: ASYNC110 - no children of ours, nobody tells us
            await asyncio.sleep(_POLL_S)

    def _is_closed(self) -> bool:
        return self._is_freed or self._freeing is not None

    def _signal(self, number: signal.Signals) -> None:
        # While the keeper lives, the pid of its child is not reused.
        if not self._link.is_closed:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.group, number)


async def _within(limit_s: float, work: Coroutine[None, None, object]) -> bool:
    """Return whether *work* ends within *limit_s*, also in a task that was cancelled.

    There, `asyncio.timeout` of Python 3.11.2 takes its own cancellation for the one before.
    """
    task = asyncio.ensure_future(work)
    try:
        ended, _ = await asyncio.wait({task}, timeout=limit_s)
        for each in ended:
            each.result()
        return bool(ended)
    finally:
        task.cancel()


class _Reader(asyncio.Protocol):
    """Reads a pipe into a buffer, as long as any process holds the other end."""

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
            self.close()  # the kill may take effect late, and output is fast

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
    confine: Callable[[], Awaitable[Confinement]] | None = None,
) -> RunningCommand:
    """Start *line*; its output goes to *output*, and *on_output* is called after each piece.

    Standard input is /dev/null, and there is no terminal for password prompts.

    Args:
        confine: Makes the sandbox of a *line* that has only its outline. Meanwhile the program that
            builds it starts, which takes as long.

    Raises:
        OSError: It could not be started, e.g. the text is too long for one argument.
        ValueError: The text is not valid as an argument, e.g. it contains NUL.
    """
    confinement = line.confinement
    try:
        link, reading = launcher.launch(line.order())
    except BaseException:
        await asyncio.shield(unstoppable(confinement.release))
        raise
    try:
        if confine:
            confinement = await confine()
            begun = line.confinement
            is_begun = confinement.continues(begun) and link.complete(confinement.rest_of(begun))
            if not is_begun:  # so it begins anew, with all of them
                await asyncio.shield(unstoppable(lambda: link.end(_END_LIMIT_S)))
                os.close(reading)
                reading = -1
                link, reading = launcher.launch(replace(line, confinement=confinement).order())
        link.socket.setblocking(False)
        pid = await link.pid()
    except BaseException:
        if reading >= 0:
            os.close(reading)
        await asyncio.shield(unstoppable(lambda: (link.end(_END_LIMIT_S), confinement.release())))
        raise
    reader = _Reader(output, on_output, bytes_max=line.output_bytes_max)
    command = RunningCommand(pid, link, reader, confinement)
    pipe = os.fdopen(reading, "rb", 0)
    try:
        await asyncio.get_running_loop().connect_read_pipe(lambda: reader, pipe)
    except BaseException:  # cancelled: no one else has a handle on the process
        pipe.close()
        await command.finish()
        raise
    return command
