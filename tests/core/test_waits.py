"""The waits of calls: for files, in call order, and for slots."""

import asyncio
from contextlib import AsyncExitStack
from datetime import timedelta

import pytest

from agent_cli.contracts.timeline import ToolOutput
from agent_cli.core.waits import (
    AGENT_SLOT_LIMIT_S,
    CallWaits,
    CapacityLimiter,
    InOrder,
    WaitedTooLong,
)
from tests.fakes import returns, tool, tool_use
from tests.tables import each_row
from tests.waiting import StoppedClock


@each_row(
    ("later", "waits"),
    [
        ("/w/ab", False),
        ("/w/a", True),
        ("/w/a/", True),
        ("/w/a/below", True),
        ("/w", True),
        ("/", True),
    ],
)
async def test_write_waits_for_writes_to_the_same_a_parent_or_a_child_path(
    *, later: str, waits: bool
) -> None:
    """A file whose name only starts with the other's path is a different file."""
    order = InOrder()
    async with AsyncExitStack() as second:
        async with order.turn((), ("/w/a",)):
            entering = asyncio.ensure_future(second.enter_async_context(order.turn((), (later,))))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            waited = not entering.done()
        await entering

    assert waited is waits


async def test_wait_for_a_file_ends_and_names_the_call_that_has_it() -> None:
    """The later call gives its turn back, so that the next does not wait for it."""
    order = InOrder()

    async with order.turn((), ("/w/a",), holder="edit (t1)"):
        with pytest.raises(WaitedTooLong) as failed:
            async with order.turn(("/w/a",), (), holder="read (t2)", limit_s=0.01):
                pass
    async with order.turn((), ("/w",), limit_s=0.01):
        pass

    assert str(failed.value) == (
        "Not run: it waited 0.01 s for its turn with /w/a, held by edit (t1). Go on without it, or"
        " call again once that has ended."
    )


async def test_wait_for_a_place_ends_and_names_those_who_have_one() -> None:
    slots = CapacityLimiter(1, "a slot", limit_s=0.01)
    await slots.take("bash (t1)")

    with pytest.raises(WaitedTooLong, match=r"waited 0\.01 s for a slot, held by bash \(t1\)\."):
        await slots.take("bash (t2)")
    slots.give("bash (t1)")
    async with slots.held("bash (t3)"):
        pass


async def test_call_that_waits_for_a_slot_too_long_reads_who_holds_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """S0-50: the sentence is the model's; without it a call would fail for no reason."""
    waits, look = CallWaits(1, None), tool("look", returns("ok"))
    monkeypatch.setattr(waits._slots, "_limit_s", 0.01)
    first, second = (ToolOutput(id, 1, "r", tool_use("look", {}, id)) for id in ("t1", "t2"))

    async with waits.turn(first, look, (), ()):
        with pytest.raises(WaitedTooLong) as failed:
            async with waits.turn(second, look, (), ()):
                pass

    assert str(failed.value).startswith(
        "Not run: it waited 0.01 s for a slot of its reply, held by look (t1)."
    )


async def test_agents_of_a_tree_wait_for_each_others_files() -> None:
    """Each reply has a `CallWaits` of its own, and they share one order."""
    tree, write = InOrder(), tool("write", returns("ok"))
    one, other = CallWaits(1, tree), CallWaits(1, tree)
    first, second = (ToolOutput(id, 1, "r", tool_use("write", {}, id)) for id in ("t1", "t2"))
    order: list[str] = []

    async def write_second() -> None:
        async with other.turn(second, write, (), ("/w/a",)):
            order.append("second")

    async with one.turn(first, write, (), ("/w/a",)):
        waiting = asyncio.create_task(write_second())
        for _ in range(10):
            await asyncio.sleep(0)
        order.append("first")
    await waiting

    assert order == ["first", "second"]


async def test_places_are_given_in_the_order_in_which_they_were_asked_for() -> None:
    """One that gave up before, or in the very moment it got its slot, leaves it to the next."""
    slots, got = CapacityLimiter(1, "a slot"), list[str]()

    async def work(name: str) -> None:
        async with slots.held(name):
            got.append(name)

    await slots.take("first")
    tasks = {name: asyncio.create_task(work(name)) for name in "abcd"}
    await asyncio.sleep(0)
    tasks["a"].cancel()
    await asyncio.sleep(0)
    slots.give("first")
    tasks["b"].cancel()
    await asyncio.wait(tasks.values())

    assert got == ["c", "d"]


async def test_a_call_waits_an_hour_for_a_file_and_for_a_slot() -> None:
    """As long as a call may run; who holds it for longer has hung."""
    clock, order, slots = StoppedClock(), InOrder(), CapacityLimiter(1, "a slot")
    await slots.take("bash (t1)")

    async def turn() -> None:
        async with order.turn(("/w/a",), ()):
            pass

    async with order.turn((), ("/w/a",), holder="edit (t1)"):
        waiting = [asyncio.ensure_future(each) for each in (turn(), slots.take("bash (t2)"))]
        await clock.pass_s(0)
        await clock.pass_s(3_599.5)
        early = [each.done() for each in waiting]
        await clock.pass_s(1.0)
        late = [each.done() for each in waiting]
    slots.give("bash (t1)")
    ended = await asyncio.gather(*waiting, return_exceptions=True)

    assert (early, late) == ([False, False], [True, True])
    assert [type(each) for each in ended] == [WaitedTooLong, WaitedTooLong]


async def test_the_limit_of_a_wait_begins_anew_while_slots_change_hands() -> None:
    """Many calls behind one another are slow, and none of them hangs."""
    clock, slots = StoppedClock(), CapacityLimiter(1, "a slot")
    await slots.take("bash (t1)")
    second, third = (asyncio.ensure_future(slots.take(f"bash (t{n})")) for n in (2, 3))
    await clock.pass_s(0)
    await clock.pass_s(3_000)
    slots.give("bash (t1)")
    await second
    await clock.pass_s(3_000)

    assert not third.done()
    slots.give("bash (t2)")
    await third


async def test_an_agent_waits_half_a_day_for_a_slot() -> None:
    """An agent that has asked the user keeps its slot for a night; a hung one not for ever."""
    clock, slots = StoppedClock(), CapacityLimiter(1, "a slot", limit_s=AGENT_SLOT_LIMIT_S)
    await slots.take("agent (t1)")
    waiting = asyncio.ensure_future(slots.take("agent (t2)"))
    half_a_day_s = timedelta(hours=12).total_seconds()

    await clock.pass_s(0)
    await clock.pass_s(half_a_day_s - 0.5)
    early = waiting.done()
    await clock.pass_s(1.0)
    late = waiting.done()
    slots.give("agent (t1)")
    [ended] = await asyncio.gather(waiting, return_exceptions=True)

    assert (early, late, type(ended)) == (False, True, WaitedTooLong)
