"""The body of a reply as it arrives: what came together is passed on together, within a time limit.

The read timeout counts only silence; a server that keeps sending pings, comments or headers would
keep the program waiting forever. So a second limit counts the time without a piece of the reply.

A server sends a long answer in thousands of pieces of a few characters. Each one that is passed on
alone is decoded, checked and shown alone, which takes more CPU time than to draw its text.
"""

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Final, Self

from agent_cli.providers.failures import broken_off

WAITING_BYTES_MAX: Final = 1_000_000


class Arrivals:
    """An iterator over the pieces of a body, each time over all that came meanwhile, as one.

    A task reads them, until the end of the `async with` block at the latest. It stops reading while
    `WAITING_BYTES_MAX` wait to be taken, so that a flood of a server does not fill the memory.
    """

    def __init__(self, body: AsyncIterator[bytes]) -> None:
        self._body = body
        self._pieces: list[bytes] = []
        self._waiting_bytes = 0
        self._changed = asyncio.Event()
        self._taken = asyncio.Event()

    async def __aenter__(self) -> Self:
        """Begin to read."""
        # Not a TaskGroup: whoever opens a reply is a generator (PEP 789). This owns the task.
        self._reading = asyncio.get_running_loop().create_task(self._read())
        return self

    async def __aexit__(self, *_failure: object) -> None:
        """Stop reading; the body may be closed afterwards."""
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    def __aiter__(self) -> Self:
        """Return the iterator itself."""
        return self

    async def __anext__(self) -> bytes:
        """Return the bytes that came since the last call; wait if there are none.

        Raises:
            StopAsyncIteration: The body ended.
            Exception: What broke it off, once all before that was returned.
        """
        while not self._pieces:
            if self._reading.done():
                self._reading.result()
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        data = b"".join(self._pieces)
        self._pieces.clear()
        self._waiting_bytes = 0
        self._taken.set()
        return data

    async def _read(self) -> None:
        pauses, clock = ReadPauses(), asyncio.get_running_loop().time
        asked_s = clock()
        try:
            async for piece in self._body:
                self._pieces.append(piece)
                self._waiting_bytes += len(piece)
                self._changed.set()
                if self._waiting_bytes >= WAITING_BYTES_MAX:
                    self._taken.clear()
                    await self._taken.wait()
                if pause_s := pauses.pause_s(clock() - asked_s):
                    await asyncio.sleep(pause_s)
                asked_s = clock()
        finally:
            self._changed.set()


# Pauses between reads, so that one read returns several pieces of a reply.
#
# A read costs far more CPU time than the few characters it returns: reading every small piece of a
# long answer as it comes takes half as much CPU time again.

AFTER_PIECES: Final = 200
"""The beginning is read without pauses, so that short replies are not delayed."""

PAUSE_S: Final = 0.045
"""Less than the time between two frames."""

_THERE_ALREADY_S: Final = 0.000_5


class ReadPauses:
    """The pauses for one reply."""

    def __init__(self) -> None:
        self._pieces = 0

    def pause_s(self, waited_s: float) -> float:
        """Return the pause before the next read, after a read that waited *waited_s*.

        0 while pieces arrive faster than they are read, or too rarely for several to accumulate.
        """
        self._pieces += 1
        is_drip = _THERE_ALREADY_S < waited_s < PAUSE_S
        return PAUSE_S if is_drip and self._pieces > AFTER_PIECES else 0.0


class ProgressLimit:
    """The limit of one call; it starts at once and restarts with each piece of the reply.

    `with` it around each wait for the server; the body must not yield. One timer serves all waits:
    an `asyncio.timeout` for each took a fifth of the time of a long reply.
    """

    def __init__(self, limit_s: float, stage: str) -> None:
        self._limit_s = limit_s
        self._stage = stage
        self._loop = asyncio.get_running_loop()
        self._deadline_s = self._loop.time() + limit_s
        self._timer: asyncio.Handle | None = None
        self._waiting: asyncio.Task[Any] | None = None
        self._cancelling = 0  # requests to cancel the task that are not ours
        self._is_over = False

    def restart(self) -> None:
        """Restart the limit: a piece of the reply has come."""
        self._deadline_s = self._loop.time() + self._limit_s

    def __enter__(self) -> None:
        """Begin to wait for the server."""
        self._waiting = asyncio.current_task()
        assert self._waiting is not None
        self._cancelling = self._waiting.cancelling()
        if self._loop.time() >= self._deadline_s:
            if self._timer:
                self._timer.cancel()
            self._timer = self._loop.call_soon(self._check)
        elif self._timer is None:
            self._timer = self._loop.call_at(self._deadline_s, self._check)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        """End the wait.

        Raises:
            CallFailed: The limit was reached.
        """
        task, self._waiting = self._waiting, None
        if not self._is_over:
            return
        self._is_over = False
        assert task is not None
        if task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            what = f"{self._stage} sent no piece of the reply for {self._limit_s:g} s"
            raise broken_off(what) from error

    def _check(self) -> None:
        """Cancel the wait if the limit was reached; the timer may be of an earlier piece."""
        self._timer = None
        if self._waiting is None or self._is_over:
            return
        if self._loop.time() >= self._deadline_s:
            self._is_over = True
            self._waiting.cancel()
        else:
            self._timer = self._loop.call_at(self._deadline_s, self._check)
