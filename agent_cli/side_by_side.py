"""Runs coroutines beside each other until all are done, or until something interrupts them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager


class InOrder:
    """Who needs a path that somebody asked for earlier waits until that one is done.

    Not a lock for each path: who needs several would queue for the second only when it has the
    first, and somebody who asked later could overtake it there.
    """

    def __init__(self) -> None:
        self._last: dict[str, asyncio.Event] = {}

    @asynccontextmanager
    async def turn(self, paths: Sequence[str]) -> AsyncIterator[None]:
        """Run the body after everybody who entered earlier with one of *paths*."""
        earlier = [self._last[path] for path in paths if path in self._last]
        done = asyncio.Event()
        self._last |= dict.fromkeys(paths, done)
        try:
            for other in earlier:
                await other.wait()
            yield
        finally:
            done.set()


async def side_by_side(
    work: Sequence[Coroutine[None, None, None]],
    interrupt: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Run *work*, started in order; when *interrupt* returns first, cancel what still runs.

    The first that fails cancels the others, and its error is raised.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in work]
            if interrupt:
                watcher = group.create_task(_cancel_when(interrupt, tasks))
                await asyncio.wait(tasks)
                watcher.cancel()
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None  # callers know errors, not groups of them


async def _cancel_when(
    interrupt: Callable[[], Awaitable[None]], tasks: Sequence[asyncio.Task[None]]
) -> None:
    await interrupt()
    for task in tasks:
        task.cancel()
