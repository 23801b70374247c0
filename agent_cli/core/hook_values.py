"""Normalise the values hooks return: plain or awaitable, messages or none."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias, TypeVar, cast

from agent_cli.contracts.messages import UserMessage

T = TypeVar("T")


Maybe: TypeAlias = T | Awaitable[T]


async def settled(value: "Maybe[T]") -> T:
    """Return *value*, awaited if it must be."""
    if isinstance(value, Awaitable):
        return await cast("Awaitable[T]", value)
    return value


TakeMessages: TypeAlias = Callable[[], Maybe[Sequence[UserMessage] | None]]


async def queued(take: TakeMessages | None) -> Sequence[UserMessage]:
    """Return the messages of *take*; a missing hook and None both count as no messages."""
    messages = await settled(take()) if take else None
    return messages or ()
