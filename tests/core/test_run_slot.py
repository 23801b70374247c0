"""The slot of an agent: one holder at a time, for tasks and threads. See also test_busy.py."""

import asyncio
import threading

import pytest

from agent_cli.contracts.errors import AgentBusy
from agent_cli.core.run_slot import RunSlot
from tests.fakes import LIMIT_S


def test_each_holder_has_its_own_token_and_releases_after_an_error() -> None:
    slot = RunSlot()
    with pytest.raises(ValueError, match="broken"), slot.claimed() as first:
        with pytest.raises(AgentBusy), slot.claimed():
            pass
        slot.cancel()
        raise ValueError("broken")
    slot.require_free()
    slot.cancel()

    with slot.claimed() as second:
        assert (first.cancelled, second.cancelled) == (True, False)


def test_of_many_threads_one_gets_the_slot() -> None:
    slot, together, held = RunSlot(), threading.Barrier(8), threading.Barrier(8)
    outcomes: list[bool] = []

    def claim() -> None:
        together.wait(LIMIT_S)
        try:
            with slot.claimed():
                held.wait(LIMIT_S)
                outcomes.append(True)
        except AgentBusy:
            outcomes.append(False)
            held.wait(LIMIT_S)

    threads = [threading.Thread(target=claim) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)

    assert sorted(outcomes) == [False] * 7 + [True]


async def test_a_wait_ends_with_the_release() -> None:
    slot = RunSlot()
    await asyncio.wait_for(slot.wait(), LIMIT_S)
    with slot.claimed():
        waiting = asyncio.ensure_future(slot.wait())
        await asyncio.sleep(0)
        assert not waiting.done()

    await asyncio.wait_for(waiting, LIMIT_S)


def test_an_interruption_cancels_the_holder_and_is_raised_at_its_end() -> None:
    slot, order = RunSlot(), list[str]()
    with pytest.raises(KeyboardInterrupt):
        slot.interrupt(KeyboardInterrupt())

    with pytest.raises(KeyboardInterrupt), slot.claimed() as token:
        slot.interrupt(KeyboardInterrupt())
        order.append(f"cancelled: {token.cancelled}")

    assert order == ["cancelled: True"]
    slot.require_free()
