"""The cancel token of a run."""

import asyncio

import pytest

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import Aborted
from tests.fakes import LIMIT_S


class SetRightAfterTheCheck(CancelToken):
    """As if another thread sets it at the worst moment."""

    def check(self) -> None:
        super().check()
        self.cancel()


async def test_cancel_scope_is_interrupted_if_the_token_is_set_while_opening() -> None:
    """A check before the registration of the scope used to leave the body running for good."""
    with pytest.raises(Aborted):
        async with asyncio.timeout(LIMIT_S), SetRightAfterTheCheck().scope():
            await asyncio.Event().wait()


async def test_cancel_scope_of_a_cancelled_token_does_not_run_its_body() -> None:
    token = CancelToken()
    token.cancel()

    with pytest.raises(Aborted):
        async with token.scope():
            pytest.fail("it ran")


async def test_wait_ends_when_another_thread_sets_the_token() -> None:
    """An event loop that sleeps has to be woken; in debug mode it refuses any other way."""
    asyncio.get_running_loop().set_debug(True)
    token = CancelToken()
    waiting = asyncio.ensure_future(token.wait())
    await asyncio.sleep(0)  # it waits

    await asyncio.to_thread(token.cancel)
    await asyncio.wait_for(waiting, LIMIT_S)
    await asyncio.wait_for(token.wait(), LIMIT_S)  # it stays set
