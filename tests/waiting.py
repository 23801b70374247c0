"""Wait for other processes and threads; every wait has a limit."""

import asyncio
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from tests.forked import Program

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


def ended_by_signals(process: "Program | subprocess.Popen[str]") -> int:
    """Send signals until one a second after the first ends *process*; return its exit code."""
    process.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1.1)

    def ends() -> bool:
        # The program may have begun to count its second later than we did.
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.2)
        return process.poll() is not None

    wait_until(ends, "the end of the program")
    return process.wait()


def is_alive(pid: int) -> bool:
    """Return whether process *pid* runs; a zombie is dead but not yet reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
