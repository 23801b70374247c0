"""Wait for other processes and threads; every wait has a limit."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

LIMIT_S: Final = 60.0


def wait_until(
    condition: Callable[[], object], what: str = "the condition", *, limit_s: float = LIMIT_S
) -> None:
    """Wait until *condition* holds."""
    deadline_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline_s, f"not within {limit_s:g} s: {what}"
        time.sleep(0.01)


async def until(condition: Callable[[], object]) -> None:
    """Wait until *condition* holds, in an event loop."""
    async with asyncio.timeout(LIMIT_S):
        while not condition():  # noqa: ASYNC110 - it happens in another process
            await asyncio.sleep(0.01)


class StoppedClock:
    """The clock of the running event loop: it stands still until the test moves it.

    Bounds are held this way without waiting for them.
    """

    def __init__(self) -> None:
        """Stop the clock; the loop ends with the test."""
        loop = asyncio.get_running_loop()
        self._now_s = loop.time()
        loop.time = lambda: self._now_s  # type: ignore[method-assign]  # the test's clock

    async def pass_s(self, seconds: float) -> None:
        """Move the clock, and let the loop do what is due."""
        self._now_s += seconds
        for _ in range(5):
            await asyncio.sleep(0)

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for *condition*, in time that this clock does not show."""
        await asyncio.to_thread(wait_until, condition)


def is_alive(pid: int) -> bool:
    """Return whether process *pid* runs; a zombie is dead but not yet reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
