"""Limits on the silence of a server, suspended while a user is being asked."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager


class SilenceLimits:
    """The limits of all current operations with one server."""

    def __init__(self) -> None:
        self._limits: dict[asyncio.Timeout, float] = {}
        self._questions = 0

    @asynccontextmanager
    async def limited(self, silence_s: float) -> AsyncGenerator[Callable[[], None]]:
        """Run the body with a limit; yield a function that restarts it.

        Raises:
            TimeoutError: The limit was reached.
        """
        async with asyncio.timeout(None) as limit:
            self._limits[limit] = silence_s
            self._restart(limit)
            try:
                yield lambda: self._restart(limit)
            finally:
                del self._limits[limit]

    @contextmanager
    def asking(self) -> Generator[None]:
        """Suspend all limits while the body runs."""
        self._questions += 1
        for limit in self._limits:
            if not limit.expired():
                limit.reschedule(None)
        try:
            yield
        finally:
            self._questions -= 1
            for limit in self._limits:
                self._restart(limit)

    def end(self) -> None:
        """Make every limit expire now."""
        for limit in self._limits:
            if not limit.expired():
                limit.reschedule(0)

    def _restart(self, limit: asyncio.Timeout) -> None:
        # May be called after the body has ended, because progress may arrive late.
        if limit in self._limits and not limit.expired() and not self._questions:
            limit.reschedule(asyncio.get_running_loop().time() + self._limits[limit])
