"""Limits on the silence and the whole time of a server, suspended while a user is being asked."""

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass


class TotalTimeReached(TimeoutError):
    """The whole time of an operation is over, although the server was not silent."""


@dataclass(slots=True)
class _Limit:
    silence_s: float
    started_at: float
    ends_at: float


class SilenceLimits:
    """The limits of all current operations with one server."""

    def __init__(self) -> None:
        self._limits: dict[asyncio.Timeout, _Limit] = {}
        self._questions = 0
        self._asked_at = 0.0

    @asynccontextmanager
    async def limited(
        self, silence_s: float, *, total_s: float = math.inf
    ) -> AsyncGenerator[Callable[[], None]]:
        """Run the body with limits; yield a function that restarts the one of silence.

        Raises:
            TotalTimeReached: The body took *total_s*.
            TimeoutError: The limit of silence was reached.
        """
        now = asyncio.get_running_loop().time()
        limit, timeout = _Limit(silence_s, now, now + total_s), asyncio.timeout(None)
        try:
            async with timeout:
                self._limits[timeout] = limit
                self._restart(timeout)
                try:
                    yield lambda: self._restart(timeout)
                finally:
                    del self._limits[timeout]
        except TimeoutError as error:
            if timeout.expired() and asyncio.get_running_loop().time() >= limit.ends_at:
                raise TotalTimeReached from error
            raise

    @contextmanager
    def asking(self) -> Generator[None]:
        """Suspend all limits while the body runs."""
        if not self._questions:
            self._asked_at = asyncio.get_running_loop().time()
        self._questions += 1
        for timeout in self._limits:
            if not timeout.expired():
                timeout.reschedule(None)
        try:
            yield
        finally:
            self._questions -= 1
            if not self._questions:
                self._resume()

    def end(self) -> None:
        """Make every limit expire now."""
        for timeout in self._limits:
            if not timeout.expired():
                timeout.reschedule(0)

    def _resume(self) -> None:
        now = asyncio.get_running_loop().time()
        for timeout, limit in self._limits.items():
            limit.ends_at += now - max(self._asked_at, limit.started_at)
            self._restart(timeout)

    def _restart(self, timeout: asyncio.Timeout) -> None:
        # May be called after the body has ended, because progress may arrive late.
        limit = self._limits.get(timeout)
        if limit and not timeout.expired() and not self._questions:
            silence_ends_at = asyncio.get_running_loop().time() + limit.silence_s
            timeout.reschedule(min(silence_ends_at, limit.ends_at))
