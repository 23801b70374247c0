"""Count what model calls beside a conversation cost: summaries, hooks, servers, side questions.

Each reply by itself, as the ledger expects it, and also the part of one that broke off.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TypeAlias

from agent_cli.contracts.events import EventSink, UsageChanged
from agent_cli.contracts.provider import (
    ModelRequest,
    ReplyEnd,
    ReplyStart,
    Retrying,
    StreamEvent,
    StreamFn,
    closable,
)
from agent_cli.contracts.timeline import NO_USAGE, Usage
from agent_cli.core.conversation import Conversation

Spent: TypeAlias = Callable[[Usage], None]


def metered(stream_fn: StreamFn, spent: Spent) -> StreamFn:
    """Return *stream_fn*; *spent* takes the usage of each reply that began."""

    async def stream(request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        used = NO_USAGE
        try:
            async with aclosing(closable(stream_fn(request))) as events:
                async for event in events:
                    match event:
                        case ReplyStart():
                            used = event.usage
                        case ReplyEnd():
                            used = event.reply.usage
                        case Retrying():
                            lost, used = used, NO_USAGE
                            _tell(lost, spent)
                        case _:
                            pass
                    yield event
        finally:
            _tell(used, spent)

    return stream


def spending(conversation: Conversation, emit: EventSink) -> Spent:
    """Return a function that adds usage to *conversation*, whose last prompt bears it."""

    def spent(used: Usage) -> None:
        conversation.add_usage(used)
        emit(UsageChanged(used, conversation.usage))

    return spent


def spending_now(conversation: Callable[[], Conversation], emit: EventSink) -> Spent:
    """Return a function that adds usage to the current *conversation*, if it has a prompt.

    A conversation that was begun meanwhile does not bear the cost of the one before.
    """

    def spent(used: Usage) -> None:
        current = conversation()
        if current.prompts:
            spending(current, emit)(used)

    return spent


def _tell(used: Usage, spent: Spent) -> None:
    if used != NO_USAGE:
        spent(used)
