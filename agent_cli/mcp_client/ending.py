"""Wait for the end of tasks, with a limit."""

import asyncio
from collections.abc import Collection


async def ended(tasks: Collection[asyncio.Task[None]], limit_s: float) -> None:
    """Wait until *tasks* have ended; cancel those that have not within the limit."""
    if not tasks:
        return
    _, unfinished = await asyncio.wait(tasks, timeout=limit_s)
    for task in unfinished:
        task.cancel()
    if unfinished:
        await asyncio.wait(unfinished, timeout=limit_s)
