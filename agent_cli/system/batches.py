"""Run coroutines concurrently until all are done, or until something interrupts them."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from inspect import CORO_CLOSED, getcoroutinestate
from typing import Any, Final

_UNWINDS_MAX: Final = 100


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
