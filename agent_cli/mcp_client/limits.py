"""Limits on a server: its silence and whole time, its restarts, the wait for its end."""

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TypeVar

from agent_cli.system.records import dataclass

Answer = TypeVar("Answer")


class TotalTimeReached(TimeoutError):
    """The whole time of an operation is over, although the server was not silent."""


class ConnectionEnded(TimeoutError):
    """The connection is closed on purpose, so no answer will come."""


class NobodyWaits(Exception):
    """All operations that a server may have asked its question for have ended."""


@dataclass(slots=True)
class _Limit:
    silence_s: float
    started_at: float
    ends_at: float
    is_over: bool = False


class SilenceLimits:
    """The limits of all current operations with one server."""

    def __init__(self) -> None:
        self._limits: dict[asyncio.Timeout, _Limit] = {}
        self._questions = 0
        self._open = set[asyncio.Timeout]()
        self._asked_at = 0.0

    @asynccontextmanager
    async def limited(
        self, silence_s: float, *, total_s: float = math.inf
    ) -> AsyncGenerator[Callable[[], None]]:
        """Run the body with limits; yield a function that restarts the limit of silence.

        Raises:
            ConnectionEnded: `end()` was called.
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
                    if not self._limits:
                        self._close_questions()
        except TimeoutError as error:
            if timeout.expired() and limit.is_over:
                raise ConnectionEnded from error
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

    async def ask(self, question: Awaitable[Answer]) -> Answer:
        """Return the answer to a *question* of the server, with all limits suspended.

        A server that dies leaves its question open, and nobody to answer: it is then cancelled.

        Raises:
            NobodyWaits: There were operations with the server, and the last of them has ended.
        """
        timeout = asyncio.timeout(None)  # it expires when nobody waits
        try:
            async with timeout:
                if self._limits:
                    self._open.add(timeout)
                with self.asking():
                    return await question
        except TimeoutError as error:
            if timeout.expired():
                raise NobodyWaits from error
            raise
        finally:
            self._open.discard(timeout)

    def _close_questions(self) -> None:
        for timeout in self._open:
            if not timeout.expired():
                timeout.reschedule(0)

    def end(self) -> None:
        """Make every limit expire now."""
        for timeout, limit in self._limits.items():
            if not timeout.expired():
                limit.is_over = True
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


class Uses:
    """The requests that run on a connection."""

    def __init__(self) -> None:
        self._count = 0
        self._none = asyncio.Event()
        self._none.set()

    @property
    def running(self) -> bool:
        """Whether a request runs."""
        return self._count > 0

    @contextmanager
    def one(self) -> Generator[None]:
        """Count the body as one request."""
        self._count += 1
        self._none.clear()
        try:
            yield
        finally:
            self._count -= 1
            if not self._count:
                self._none.set()

    async def wait_ended(self, limit_s: float) -> None:
        """Wait until no request runs, for *limit_s* at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._none.wait()


async def ended(tasks: Collection[asyncio.Task[None]], limit_s: float) -> None:
    """Wait until *tasks* have ended; cancel tasks that exceed the limit."""
    if not tasks:
        return
    _, unfinished = await asyncio.wait(tasks, timeout=limit_s)
    for task in unfinished:
        task.cancel()
    if unfinished:
        await asyncio.wait(unfinished, timeout=limit_s)


# The limits on restarts of a server that ended.


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """The restarts of a server that was ready before it ended.

    Attributes:
        delays_s: Wait before each restart; their number is the limit.
        stable_s: A server that ran this long gets all its restarts back.
    """

    delays_s: tuple[float, ...] = (0.5, 2.0, 8.0)
    stable_s: float = 60.0


class Restarts:
    """Counts the restarts of one server against its policy.

    Attributes:
        count: The restarts since it was started, or since it was stable.
    """

    def __init__(self, policy: RestartPolicy) -> None:
        self._policy = policy
        self.count = 0

    def next_delay_s(self) -> float | None:
        """Count one more restart, and return the wait before it; None if there is none left."""
        if self.count >= len(self._policy.delays_s):
            return None
        self.count += 1
        return self._policy.delays_s[self.count - 1]

    def note_run(self, ready_s: float) -> None:
        """Give all restarts back if the server was ready for long enough."""
        if ready_s >= self._policy.stable_s:
            self.count = 0


NORMAL_RESTARTS = RestartPolicy()
NO_RESTARTS = RestartPolicy(delays_s=())
