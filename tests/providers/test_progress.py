"""The time limit for a reply that makes no progress, with a clock set by the test."""

import asyncio

import pytest

from agent_cli.providers.arrivals import ProgressLimit
from agent_cli.providers.failures import CallFailed
from tests.waiting import StoppedClock

LIMIT_S = 600
PIECE, OTHER = True, False


async def wait_after(steps: list[tuple[float, bool]]) -> None:
    """Create the limit, and wait for each event, which is a piece of the reply or not."""
    loop = asyncio.get_running_loop()
    real, ahead_s = loop.time, 0.0
    loop.time = lambda: real() + ahead_s  # type: ignore[method-assign]  # the test's clock
    limit = ProgressLimit(LIMIT_S, "the server")
    for seconds, is_piece in steps:
        ahead_s += seconds
        with limit:
            await asyncio.sleep(0)
        if is_piece:
            limit.restart()


async def test_progress_limit_does_not_bound_the_whole_reply() -> None:
    """Each piece restarts the limit: an answer may take an hour."""
    await wait_after([(LIMIT_S - 1, PIECE)] * 6)


async def test_other_data_does_not_extend_the_progress_limit() -> None:
    with pytest.raises(CallFailed, match="the server sent no piece of the reply for 600 s"):
        await wait_after([(LIMIT_S - 1, PIECE), (LIMIT_S - 1, OTHER), (2, OTHER)])


async def test_progress_limit_counts_from_the_last_piece() -> None:
    """One timer serves all waits; it was set for the first of them."""
    clock = StoppedClock()
    limit = ProgressLimit(LIMIT_S, "the server")

    async def wait() -> None:
        with limit:
            await asyncio.Event().wait()

    with limit:
        await clock.pass_s(LIMIT_S / 2)
    limit.restart()
    waiting = asyncio.create_task(wait())
    await clock.pass_s(LIMIT_S / 2)
    waits_on = not waiting.done()
    await clock.pass_s(LIMIT_S / 2)

    assert waits_on
    with pytest.raises(CallFailed):
        await waiting


async def test_cancelled_wait_raises_cancelled_error_and_not_a_timeout() -> None:
    """Ctrl-C is no failure of the server, whether before the limit or at the same time."""

    async def wait(limit_s: float) -> None:
        with ProgressLimit(limit_s, "the server"):
            await asyncio.Event().wait()

    for limit_s in (LIMIT_S, 0):
        task = asyncio.create_task(wait(limit_s))
        asyncio.get_running_loop().call_soon(task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_time_between_two_waits_does_not_count_as_silence() -> None:
    """A reader that handles a piece slowly is not cancelled meanwhile."""
    clock = StoppedClock()
    limit = ProgressLimit(LIMIT_S, "the server")
    with limit:
        pass

    await clock.pass_s(LIMIT_S + 1)
    limit.restart()
    with limit:
        await asyncio.sleep(0)
