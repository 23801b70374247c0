"""The body of a reply as it arrives, and the pauses that let small pieces accumulate."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import pytest

from agent_cli.contracts.timeline import text_of
from agent_cli.providers.arrivals import (
    AFTER_PIECES,
    PAUSE_S,
    WAITING_BYTES_MAX,
    Arrivals,
    ReadPauses,
)
from tests.fakes import LIMIT_S
from tests.messages_api import FakeMessagesApi, reply
from tests.providers.asking import asker
from tests.tables import each_row


class Body:
    """A body whose groups of pieces come one after the other, each when the test says so."""

    def __init__(self, *groups: Sequence[bytes], failure: Exception | None = None) -> None:
        self._groups = groups
        self._failure = failure
        self._may_come = asyncio.Semaphore(0)
        self.was_stopped = False

    def let_come(self) -> None:
        self._may_come.release()

    async def pieces(self) -> AsyncGenerator[bytes]:
        try:
            for group in self._groups:
                await self._may_come.acquire()
                for piece in group:
                    yield piece
            if self._failure:
                raise self._failure
        except asyncio.CancelledError:
            self.was_stopped = True
            raise


async def test_pieces_that_came_together_are_one() -> None:
    """And those that came alone are not waited with."""
    body = Body([b"a"], [b"b", b"c"], [], [b"d"])

    async with asyncio.timeout(LIMIT_S), Arrivals(body.pieces()) as arrivals:
        found: list[bytes] = []
        body.let_come()
        found.append(await anext(arrivals))
        body.let_come()
        found.append(await anext(arrivals))
        body.let_come()
        body.let_come()
        found += [each async for each in arrivals]

    assert found == [b"a", b"bc", b"d"]


async def test_no_more_is_read_while_much_waits_to_be_taken() -> None:
    """A server could fill the memory else."""
    body = Body([b"x" * WAITING_BYTES_MAX] * 3)
    body.let_come()

    async with asyncio.timeout(LIMIT_S), Arrivals(body.pieces()) as arrivals:
        found = [len(each) async for each in arrivals]

    assert found == [WAITING_BYTES_MAX] * 3


async def test_what_came_before_a_failure_is_returned_before_it() -> None:
    """The text of a reply that breaks off is shown up to there."""
    body = Body([b"a", b"b"], failure=OSError("reset"))
    body.let_come()
    found: list[bytes] = []

    with pytest.raises(OSError, match="reset"):
        async with asyncio.timeout(LIMIT_S), Arrivals(body.pieces()) as arrivals:
            async for each in arrivals:
                found.append(each)

    assert found == [b"ab"]


async def test_leaving_stops_the_reading_before_the_body_is_closed() -> None:
    """A generator that still reads cannot be closed."""
    body = Body([b"a"], [b"b"])
    body.let_come()

    async with asyncio.timeout(LIMIT_S), aclosing(body.pieces()) as pieces:
        async with Arrivals(pieces) as arrivals:
            first = await anext(arrivals)

        assert (first, body.was_stopped) == (b"a", True)


def pauses(waited_s: list[float]) -> list[float]:
    pauses = ReadPauses()
    return [pauses.pause_s(each) for each in waited_s]


def test_short_reply_is_read_without_pauses() -> None:
    """A turn that calls a tool waits for the last piece of its reply."""
    assert not any(pauses([0.002] * AFTER_PIECES))


def test_long_reply_in_small_pieces_is_read_with_pauses() -> None:
    assert pauses([0.002] * (AFTER_PIECES + 2))[-2:] == [PAUSE_S, PAUSE_S]
    assert pauses([0.002] * 201)[-2:] == [0, PAUSE_S]


@each_row("waited_s", [0.0, 0.0001, PAUSE_S, 1.0])
def test_pieces_that_arrive_at_once_or_rarely_are_read_without_pauses(waited_s: float) -> None:
    assert not any(pauses([waited_s] * (AFTER_PIECES + 2)))


async def test_pauses_do_not_change_the_text_of_a_long_reply() -> None:
    text = "".join(f"{number} " for number in range(3 * AFTER_PIECES))

    async with FakeMessagesApi(reply(text, chunk_chars=2)) as api, asker(api) as it:
        asked = await it.ask()

    assert text_of(asked.reply.content) == text
