"""Questions of servers end with the operations that they were asked for."""

import asyncio

import pytest

from agent_cli.mcp_client.limits import NobodyWaits, SilenceLimits
from tests.fakes import LIMIT_S


class Person:
    """Answers when told to."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.answers = asyncio.Event()

    async def answer(self) -> str:
        self.asked.set()
        await self.answers.wait()
        return "yes"


async def test_question_closes_with_the_last_operation() -> None:
    limits, person = SilenceLimits(), Person()
    async with asyncio.timeout(LIMIT_S):
        async with limits.limited(LIMIT_S):
            async with limits.limited(LIMIT_S):
                asking = asyncio.ensure_future(limits.ask(person.answer()))
                await person.asked.wait()
            # The server may have asked for the other one.
            assert not asking.done()

        with pytest.raises(NobodyWaits):
            await asking


async def test_question_without_an_operation_stays_open() -> None:
    """Of the time right after a start, for example."""
    limits, person = SilenceLimits(), Person()
    async with asyncio.timeout(LIMIT_S):
        asking = asyncio.ensure_future(limits.ask(person.answer()))
        await person.asked.wait()
        async with limits.limited(LIMIT_S):
            pass
        person.answers.set()

        assert await asking == "yes"


async def test_question_withdrawn_by_the_server_is_cancelled() -> None:
    limits, person = SilenceLimits(), Person()
    async with asyncio.timeout(LIMIT_S), limits.limited(LIMIT_S):
        asking = asyncio.ensure_future(limits.ask(person.answer()))
        await person.asked.wait()
        asking.cancel()

        with pytest.raises(asyncio.CancelledError):
            await asking
