"""The limit of a reply that makes no progress, with a clock the test sets."""

import asyncio

import pytest

from agent_cli.providers.failures import CallFailed
from agent_cli.providers.progress import ProgressLimit

LIMIT_S = 600
DELTA = {"type": "content_block_delta"}
PING = {"type": "ping"}


async def wait_after(steps: list[tuple[float, dict[str, str]]]) -> None:
    """Create the limit, take each event after its seconds, and wait once more."""
    loop = asyncio.get_running_loop()
    real, ahead_s = loop.time, 0.0
    loop.time = lambda: real() + ahead_s  # type: ignore[method-assign]  # the test's clock
    limit = ProgressLimit(LIMIT_S, "the server")
    for seconds, event in steps:
        ahead_s += seconds
        async with limit.waiting():
            await asyncio.sleep(0)
        limit.note(event)


async def test_a_long_reply_has_no_limit_as_a_whole() -> None:
    """Each piece restarts the limit: an answer may take an hour."""
    await wait_after([(LIMIT_S - 1, DELTA)] * 6)


async def test_pings_do_not_prolong_the_limit() -> None:
    with pytest.raises(CallFailed, match="the server sent no piece of the reply for 600 s"):
        await wait_after([(LIMIT_S - 1, DELTA), (LIMIT_S - 1, PING), (2, PING)])
