"""Dependencies between the calls of a batch, by the files they touch."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from agent_cli.core.batches import InOrder


@pytest.mark.parametrize(
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
