"""Runs coroutines beside each other until all are done, or until something interrupts them."""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, eq=False)
class _Use:
    """Files and folders that somebody reads or writes; `done` is set when that ended."""

    reads: Sequence[str]
    writes: Sequence[str]
    done: asyncio.Event = field(default_factory=asyncio.Event)

    def clashes_with(self, other: "_Use") -> bool:
        """Return whether it matters which of the two comes first."""
        return _overlap(self.writes, (*other.writes, *other.reads)) or _overlap(
            self.reads, other.writes
        )


class InOrder:
    """Who touches what somebody touched earlier waits until that one is done.

    Those that only read run beside each other. Not a lock for each path: who needs several would
    queue for the second only when it has the first, and somebody who asked later could overtake it
    there.
    """

    def __init__(self) -> None:
        self._startup: list[_Use] = []

    @asynccontextmanager
    async def turn(self, reads: Sequence[str], writes: Sequence[str]) -> AsyncGenerator[None]:
        """Run the body, which reads and writes these, after everybody earlier it clashes with.

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
    """Return whether a path of *some* is one of *others*, or lies in it, or holds it."""
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
            # The watcher first: whatever happens once the first of them runs, it sees.
            watcher = group.create_task(_cancel_when(interrupt, tasks)) if interrupt else None
            tasks += [group.create_task(each) for each in work]
            if watcher:
                await asyncio.wait(tasks)
                watcher.cancel()
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None  # callers know errors, not groups of them


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
