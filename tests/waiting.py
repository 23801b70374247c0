"""Wait for other processes and threads; every wait has a limit."""

import asyncio
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import pytest

if TYPE_CHECKING:
    from tests.forked import Program

LIMIT_S: Final = 60.0
# On a busy machine a command may begin after the first, or an answer come later.
GROWING_LIMITS_S: Final = (1, 8, 60)
# See "Pressure Stall Information" in the documentation of Linux.
_PRESSURES: Final = [Path("/proc/pressure", kind) for kind in ("cpu", "io", "memory")]
Result = TypeVar("Result")


def unstalled_s() -> float:
    """Return a clock that stands still while a process waits for a processor, disk or memory.

    The times that users are promised are measured with it: a busy machine takes any time. Where the
    kernel does not tell, it is a usual clock.
    """
    stalled_us = 0
    for pressure in _PRESSURES:
        with suppress(OSError):  # an older kernel, or another system
            some = pressure.read_text().partition("\n")[0]
            stalled_us += int(some.rpartition("total=")[2])
    return time.monotonic() - stalled_us / 1_000_000


async def at_growing_limits(
    run: Callable[[int], Awaitable[Result]], holds: Callable[[Result], object]
) -> Result:
    """Return the first result of *run* that *holds*; it gets time limits in seconds, each longer.

    For limits that must pass in the test, but not before a command has begun, for example.
    """
    results: list[Result] = []
    for limit_s in GROWING_LIMITS_S:
        results.append(await run(limit_s))
        if holds(results[-1]):
            return results[-1]
    raise AssertionError(f"not with a limit of {GROWING_LIMITS_S[-1]} s either: {results[-1]}")


def wait_until(
    condition: Callable[[], object],
    what: str = "the condition",
    *,
    limit_s: float = LIMIT_S,
    promised_s: float = LIMIT_S,
) -> None:
    """Wait until *condition* holds.

    Args:
        condition: Tells whether the wait is over.
        what: Names the condition, for the failure.
        limit_s: The wait ends then, on any machine.
        promised_s: The time that users are promised, on a machine that is not busy.
    """
    deadline_s, promise_s = time.monotonic() + limit_s, unstalled_s() + promised_s
    while not condition():
        assert time.monotonic() < deadline_s, f"not within {limit_s:g} s: {what}"
        assert unstalled_s() < promise_s, f"not within {promised_s:g} s: {what}"
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


def open_descriptors() -> set[tuple[str, str]]:
    """Return the number of each descriptor of this process, and what it leads to.

    For what a test leaves open. What earlier ones left may be closed at any time, by a thread that
    ends or by a collection of garbage.
    """
    found = set[tuple[str, str]]()
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the descriptor with which they are listed
            found.add((each.name, str(each.readlink())))
    return found


def parent_of(pid: int) -> int:
    """Return the id of the process that started *pid*, or of the one that took its place."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def is_alive(pid: int) -> bool:
    """Return whether process *pid* runs; a zombie is dead but not yet reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
