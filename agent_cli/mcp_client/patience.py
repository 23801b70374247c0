"""How long a server may be silent; the clock stands still while a person is being asked."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager


class Patience:
    """The limits of what is going on with one server."""

    def __init__(self) -> None:
        self._limits: dict[asyncio.Timeout, float] = {}
        self._questions = 0

    @asynccontextmanager
    async def limited(self, silence_s: float) -> AsyncGenerator[Callable[[], None]]:
        """Run the body; yield a function that starts the clock anew.

        Raises:
            TimeoutError: The clock ran out.
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
        """Stop all clocks while the body runs."""
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
        """Let every clock run out now."""
        for limit in self._limits:
            if not limit.expired():
                limit.reschedule(0)

    def _restart(self, limit: asyncio.Timeout) -> None:
        # Called once more when the body has ended already: progress may come late.
        if limit in self._limits and not limit.expired() and not self._questions:
            limit.reschedule(asyncio.get_running_loop().time() + self._limits[limit])
