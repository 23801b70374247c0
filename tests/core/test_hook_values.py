"""Hooks may be plain or coroutine functions, and message sources may give nothing. S0-22."""

import asyncio

import pytest

from agent_cli.contracts.messages import UserMessage
from agent_cli.core.hook_values import Maybe, TakeMessages, queued, settled

HI = UserMessage.of("hi")


async def test_a_value_and_an_awaitable_are_settled_alike() -> None:
    later: Maybe[str] = asyncio.sleep(0, "later")

    assert [await settled("now"), await settled(later)] == ["now", "later"]


@pytest.mark.parametrize(
    ("take", "messages"),
    [
        (None, []),
        (lambda: None, []),
        (list, []),
        (lambda: [HI], [HI]),
        (lambda: asyncio.sleep(0, [HI]), [HI]),
        (lambda: asyncio.sleep(0, None), []),
    ],
)
async def test_a_missing_source_none_and_no_messages_are_the_same(
    take: TakeMessages | None, messages: list[UserMessage]
) -> None:
    assert [*await queued(take)] == messages
