"""Coroutines side by side: the first failure ends all, an interrupt cancels what still runs. C1."""

import asyncio

import pytest

from agent_cli.system.batches import first_of, side_by_side
from tests.fakes import LIMIT_S


async def note(name: str, seen: list[str], *, until: asyncio.Event | None = None) -> None:
    try:
        if until:
            await until.wait()
        seen.append(name)
    except asyncio.CancelledError:
        seen.append(f"{name} cancelled")
        raise


async def test_work_starts_in_order_and_all_of_it_is_awaited() -> None:
    seen: list[str] = []

    await side_by_side([note(name, seen) for name in "abc"])

    assert seen == ["a", "b", "c"]


async def test_the_first_failure_cancels_the_rest_and_is_raised_alone() -> None:
    """Callers handle single errors: a group would be none that they know."""
    seen: list[str] = []

    async def fail() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await side_by_side([note("a", seen, until=asyncio.Event()), fail()])

    assert seen == ["a cancelled"]


async def test_an_interrupt_cancels_what_still_runs() -> None:
    seen: list[str] = []
    interrupted = asyncio.Event()

    async def interrupt() -> None:
        await interrupted.wait()

    never = asyncio.Event()
    running = asyncio.ensure_future(
        side_by_side([note("a", seen), note("b", seen, until=never)], interrupt)
    )
    for _ in range(4):
        await asyncio.sleep(0)
    assert seen == ["a"]
    interrupted.set()
    await asyncio.wait_for(running, LIMIT_S)

    assert seen == ["a", "b cancelled"]


async def test_first_of_returns_with_the_first_and_cancels_the_others() -> None:
    seen: list[str] = []
    ready = asyncio.Event()
    ready.set()

    await asyncio.wait_for(
        first_of(note("a", seen, until=asyncio.Event()), note("b", seen, until=ready)), LIMIT_S
    )

    assert seen == ["b", "a cancelled"]
