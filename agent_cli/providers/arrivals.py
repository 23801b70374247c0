"""The body of a reply as it arrives: what came together is passed on together.

A server sends a long answer in thousands of pieces of a few characters. Each one that is passed on
alone is decoded, checked and shown alone, which takes more CPU time than to draw its text.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Final, Self

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
        """Return what came since the last call; wait if that is nothing.

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
        came = b"".join(self._pieces)
        self._pieces.clear()
        self._waiting_bytes = 0
        self._taken.set()
        return came

    async def _read(self) -> None:
        gulps, clock = Gulps(), asyncio.get_running_loop().time
        asked_s = clock()
        try:
            async for piece in self._body:
                self._pieces.append(piece)
                self._waiting_bytes += len(piece)
                self._changed.set()
                if self._waiting_bytes >= WAITING_BYTES_MAX:
                    self._taken.clear()
                    await self._taken.wait()
                if pause_s := gulps.pause_s(clock() - asked_s):
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


class Gulps:
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
