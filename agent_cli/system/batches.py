"""Run coroutines until all are done, until something interrupts them, or for a limited time."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from inspect import CORO_CLOSED, getcoroutinestate
from typing import Any, Final, Generic, TypeVar

from agent_cli.system.logger import logger, traceback_of

T = TypeVar("T")
_UNWINDS_MAX: Final = 100
_log = logger(__name__)


async def side_by_side(
    work: Sequence[Coroutine[None, None, None]],
    interrupt: Callable[[], Awaitable[None]] | None = None,
    *,
    begun: list[asyncio.Task[None]] | None = None,
) -> None:
    """Run *work*, started in order; when *interrupt* returns first, cancel what still runs.

    The first that fails cancels the others, and its error is raised. The tasks are added to
    *begun*, so that one may cancel others.
    """
    tasks: list[asyncio.Task[None]] = [] if begun is None else begun
    try:
        async with asyncio.TaskGroup() as group:
            # The watcher first, so that it sees everything that happens once the work runs.
            watcher = group.create_task(_cancel_when(interrupt, tasks)) if interrupt else None
            tasks += [group.create_task(each) for each in work]
            if watcher:
                await asyncio.wait(tasks)
                watcher.cancel()
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None  # callers handle single errors, not exception groups
    finally:
        for each in work:  # all are done, unless the event loop was closed under them
            unwind(each)


def unwind(work: Coroutine[Any, Any, object]) -> None:
    """End *work*, which no event loop runs any more, where it stands; its cleanup cannot wait."""
    for _ in range(_UNWINDS_MAX):
        if getcoroutinestate(work) == CORO_CLOSED:
            return
        # RuntimeError: it waited once more, or its cleanup needed the closed event loop.
        with suppress(Exception, asyncio.CancelledError):
            work.close()


async def first_of(*waits: Awaitable[object]) -> None:
    """Return when the first of *waits* does; the others are cancelled."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_wait(each)) for each in waits]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None


async def _wait(wait: Awaitable[object]) -> None:
    await wait


async def _cancel_when(
    interrupt: Callable[[], Awaitable[None]], tasks: Sequence[asyncio.Task[None]]
) -> None:
    await interrupt()
    for task in tasks:
        task.cancel()


class Overran(Exception):
    """The work did not end within its limit and was cancelled."""


class Bounded(Generic[T]):
    """A coroutine with a time limit that holds even if it swallows its cancellation.

    It runs in a task of its own, which the caller leaves behind if need be.

    Attributes:
        left_behind: It did not end within `stop_limit_s` of its cancellation; it may still run.
    """

    def __init__(self, work: Coroutine[Any, Any, T], *, stop_limit_s: float) -> None:
        self._work = work
        self._stop_limit_s = stop_limit_s
        self.left_behind = False

    async def run(self, limit_s: float | None) -> T:
        """Run the coroutine for at most *limit_s* seconds; None is no limit.

        Raises:
            Overran: It took longer than *limit_s*.
            CancelledError: The caller was cancelled, or the work cancelled itself.
        """
        # Not a TaskGroup: a group always waits for its tasks, which is what must not happen here.
        task = asyncio.ensure_future(self._work)
        try:
            await asyncio.wait({task}, timeout=limit_s)
            if task.done():
                return task.result()
        finally:
            if not task.done():
                await self._stop(task)
        raise Overran

    async def _stop(self, task: asyncio.Task[T]) -> None:
        task.cancel()
        try:
            await asyncio.wait({task}, timeout=self._stop_limit_s)
        finally:
            self.left_behind = not task.done()
            _left_behind.add(task)
            task.add_done_callback(_forget)


_left_behind: set[asyncio.Task[Any]] = set()
"""Strong references: the event loop itself keeps only weak ones to its tasks."""


def _forget(task: asyncio.Task[Any]) -> None:
    """Drop *task*, and log its error, which no caller receives any more."""
    _left_behind.discard(task)
    error = None if task.cancelled() else task.exception()
    if error is not None:
        _log.warning("work failed after it was cancelled", exception=traceback_of(error))
