"""Run coroutines concurrently until all are done, or until something interrupts them."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence


async def side_by_side(
    work: Sequence[Coroutine[None, None, None]],
    interrupt: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Run *work*, started in order; when *interrupt* returns first, cancel what still runs.

    The first that fails cancels the others, and its error is raised.
    """
    tasks: list[asyncio.Task[None]] = []
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


async def first_of(*waits: Awaitable[None]) -> None:
    """Return when the first of *waits* does; the others are cancelled."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_wait(each)) for each in waits]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None


async def _wait(wait: Awaitable[None]) -> None:
    await wait


async def _cancel_when(
    interrupt: Callable[[], Awaitable[None]], tasks: Sequence[asyncio.Task[None]]
) -> None:
    await interrupt()
    for task in tasks:
        task.cancel()
