"""Runs coroutines beside each other until all are done, or until something interrupts them."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence


async def side_by_side(
    work: Sequence[Coroutine[None, None, None]],
    interrupt: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Run *work*, started in order; when *interrupt* returns first, cancel what still runs."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each) for each in work]
        if interrupt:
            watcher = group.create_task(_cancel_when(interrupt, tasks))
            await asyncio.wait(tasks)
            watcher.cancel()


async def _cancel_when(
    interrupt: Callable[[], Awaitable[None]], tasks: Sequence[asyncio.Task[None]]
) -> None:
    await interrupt()
    for task in tasks:
        task.cancel()
