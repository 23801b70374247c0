"""The pauses that let small pieces of a long reply accumulate."""

import pytest

from agent_cli.contracts.timeline import text_of
from agent_cli.providers.events import AFTER_PIECES, PAUSE_S, Gulps
from tests.messages_api import FakeMessagesApi, reply
from tests.providers.asking import asker


def pauses(waited_s: list[float]) -> list[float]:
    gulps = Gulps()
    return [gulps.pause_s(each) for each in waited_s]


def test_short_reply_is_read_without_pauses() -> None:
    """A turn that calls a tool waits for the last piece of its reply."""
    assert not any(pauses([0.002] * AFTER_PIECES))


def test_long_reply_in_small_pieces_is_read_with_pauses() -> None:
    assert pauses([0.002] * (AFTER_PIECES + 2))[-2:] == [PAUSE_S, PAUSE_S]
    assert pauses([0.002] * 201)[-2:] == [0, PAUSE_S]


@pytest.mark.parametrize("waited_s", [0.0, 0.0001, PAUSE_S, 1.0])
def test_pieces_that_arrive_at_once_or_rarely_are_read_without_pauses(waited_s: float) -> None:
    assert not any(pauses([waited_s] * (AFTER_PIECES + 2)))


async def test_pauses_do_not_change_the_text_of_a_long_reply() -> None:
    text = "".join(f"{number} " for number in range(3 * AFTER_PIECES))

    async with FakeMessagesApi(reply(text, chunk_chars=2)) as api, asker(api) as it:
        asked = await it.ask()

    assert text_of(asked.reply.content) == text
