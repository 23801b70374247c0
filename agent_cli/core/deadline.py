"""A time limit that holds even for work that swallows its cancellation."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

from agent_cli.system.logger import logger, traceback_of

T = TypeVar("T")
_log = logger(__name__)


class Overran(Exception):
    """The work did not end within its limit and was cancelled."""


class Bounded(Generic[T]):
    """One coroutine, in a task of its own so that the run can go on without it.

    Attributes:
        left_behind: It did not end within `stop_limit_s` of its cancellation; it may still run.
    """

    def __init__(self, work: Coroutine[Any, Any, T], *, stop_limit_s: float) -> None:
        self._work = work
        self._stop_limit_s = stop_limit_s
        self.left_behind = False

    async def run(self, limit_s: float | None) -> T:
        """Run it for at most *limit_s* seconds; None is no limit.

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
