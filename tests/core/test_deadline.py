"""A time limit that holds even for work that swallows its cancellation. S1-29."""

import asyncio
import gc
import weakref
from collections.abc import MutableMapping
from typing import Any

import pytest

from agent_cli.system.batches import Bounded, Overran
from tests.fakes import LIMIT_S


async def test_the_result_or_the_error_of_work_within_its_limit_is_passed_on() -> None:
    async def fail() -> None:
        raise ValueError("broken")

    quick = Bounded(asyncio.sleep(0, "done"), stop_limit_s=1)
    assert quick.left_behind is False
    assert await quick.run(LIMIT_S) == "done"
    assert await Bounded(asyncio.sleep(0, "done"), stop_limit_s=1).run(None) == "done"
    with pytest.raises(ValueError, match="broken"):
        await Bounded(fail(), stop_limit_s=1).run(LIMIT_S)


async def test_work_above_its_limit_is_cancelled() -> None:
    work = Bounded(asyncio.Event().wait(), stop_limit_s=LIMIT_S)

    with pytest.raises(Overran):
        await work.run(0.01)

    assert work.left_behind is False


async def test_work_that_does_not_stop_is_left_behind_and_its_error_logged(
    logged: list[MutableMapping[str, Any]],
) -> None:
    release, ended = asyncio.Event(), asyncio.Event()

    async def stubborn() -> None:
        try:
            await release.wait()
        except asyncio.CancelledError:
            await release.wait()
        ended.set()
        raise ValueError("late")

    work = Bounded(stubborn(), stop_limit_s=0.01)
    with pytest.raises(Overran):
        await work.run(0.01)
    assert work.left_behind

    release.set()
    await asyncio.wait_for(ended.wait(), LIMIT_S)
    for _ in range(4):
        await asyncio.sleep(0)
    assert [entry["event"] for entry in logged] == ["work failed after it was cancelled"]


async def test_cancelling_the_caller_cancels_the_work() -> None:
    seen: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("ended")

    running = asyncio.ensure_future(Bounded(work(), stop_limit_s=LIMIT_S).run(None))
    for _ in range(3):
        await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert seen == ["ended"]


async def test_work_that_was_left_behind_is_kept_until_it_ends_and_no_longer() -> None:
    """The event loop holds tasks weakly: its cleanup would run at any collection of garbage."""
    ended: list[str] = []

    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            try:
                await asyncio.Event().wait()  # nothing else refers to it
            finally:
                ended.append("thrown away")

    work = Bounded(stubborn(), stop_limit_s=0.01)
    with pytest.raises(Overran):
        await work.run(0.01)
    del work
    gc.collect()

    assert ended == []
    [left] = asyncio.all_tasks() - {asyncio.current_task()}
    left.cancel()
    await asyncio.wait({left}, timeout=LIMIT_S)
    gone = weakref.ref(left)
    del left
    gc.collect()
    assert (ended, gone()) == (["thrown away"], None)
