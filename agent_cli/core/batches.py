"""Run coroutines concurrently until all are done, or until something interrupts them."""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, eq=False)
class _Use:
    """Files and folders that one call reads or writes; `done` is set when the call has ended."""

    reads: Sequence[str]
    writes: Sequence[str]
    done: asyncio.Event = field(default_factory=asyncio.Event)

    def clashes_with(self, other: "_Use") -> bool:
        """Return whether the order of the two matters."""
        return _overlap(self.writes, (*other.writes, *other.reads)) or _overlap(
            self.reads, other.writes
        )


class InOrder:
    """A queue of calls by path: a call waits for earlier calls that use the same paths.

    Calls that only read run concurrently. Not a lock for each path: a call that needs several paths
    would queue for the second only once it has the first, and a later call could overtake it there.
    """

    def __init__(self) -> None:
        self._startup: list[_Use] = []

    @asynccontextmanager
    async def turn(self, reads: Sequence[str], writes: Sequence[str]) -> AsyncGenerator[None]:
        """Run the body, which uses these paths, after every earlier use that clashes with it.

        Args:
            reads: Files and folders, absolute.
            writes: The same.
        """
        mine = _Use(reads, writes)
        earlier = [other for other in self._startup if mine.clashes_with(other)]
        self._startup.append(mine)
        try:
            for other in earlier:
                await other.done.wait()
            yield
        finally:
            mine.done.set()
            self._startup.remove(mine)


def _overlap(some: Sequence[str], others: Sequence[str]) -> bool:
    """Return whether a path of *some* equals, lies in or contains one of *others*."""
    return any(
        one.startswith(other) or other.startswith(one)
        for one in map(_as_folder, some)
        for other in map(_as_folder, others)
    )


def _as_folder(path: str) -> str:
    return path.rstrip(os.sep) + os.sep


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
