"""Nested cost limits, and the count of what model calls beside a conversation cost.

All amounts are whole micro-dollars.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Final, TypeAlias

from agent_cli.contracts.errors import RAISE_LIMIT, SEND_A_MESSAGE, LimitReached, ModelError
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
from agent_cli.contracts.wording import dollars
from agent_cli.core.conversation import Conversation

# The longest wait for running model calls while none of them ends or begins; each has limits of its
# own for silence, so only a call that streams without end, or a fault of ours, lasts longer.
RESERVATION_LIMIT_S: Final = 3_600.0


class Account:
    """The spending and limit of one agent; its amounts also count for each account above it.

    Attributes:
        limit: Its own limit; 0 is no limit.
        spent: The cost of usage that the API reported.
        held: The reserved cost of running calls.
        lost: The possible cost of calls that broke off.
        holders: The running calls of the whole tree; their `str` names them.
        root: The account at the top.
        miscounted: At the root: whether the API counted a prompt too low before it was sent.
        surcharge: At the root: the multiple of its price that the first reply of a model may cost.
        surcharges: At the root: for a model that has replied, the highest such multiple.
    """

    def __init__(
        self, limit: int = 0, parent: "Account | None" = None, *, surcharge: float = 1.0
    ) -> None:
        """Open an account below *parent*, whose limit applies as well."""
        self.limit = limit
        self.spent = self.held = self.lost = 0
        self._line: tuple[Account, ...] = (self, *(parent._line if parent else ()))
        self._changed = asyncio.Event()
        self.holders: list[object] = parent.holders if parent else []
        self.root: Account = parent.root if parent else self
        self.miscounted = False
        self.surcharge = surcharge
        self.surcharges: dict[str, float] = {}

    @property
    def is_limited(self) -> bool:
        """Whether any limit applies, its own or one above."""
        return any(account.limit for account in self._line)

    def limit_to(self, limit: int) -> None:
        """Set its own limit, and wake tasks that wait for the rest of the earlier one."""
        self.limit = limit
        self.add()

    def add(self, *, spent: int = 0, held: int = 0, lost: int = 0) -> None:
        """Book amounts here and above, and wake tasks that wait for a change."""
        for account in self._line:
            account.spent += spent
            account.held += held
            account.lost += lost
        self.root._changed.set()
        self.root._changed = asyncio.Event()

    @property
    def _unspent(self) -> int:
        """The part of its own limit that is neither spent nor lost."""
        return self.limit - self.spent - self.lost

    def left(self, *, at_best: bool = False) -> int:
        """Return the amount that may be reserved; *at_best* assumes running calls cost nothing."""
        return min(
            account._unspent - (0 if at_best else account.held)
            for account in self._line
            if account.limit
        )

    def affordable(self) -> int:
        """Return the account's limit, or the rest of the account above if that is less."""
        above = [each._unspent for each in self._line[1:] if each.limit]
        least = min([self.limit, *above] if self.limit else above)
        return max(least, 0)

    async def changed(self, *, limit_s: float = RESERVATION_LIMIT_S) -> None:
        """Return when an amount was booked anywhere in the tree.

        Raises:
            ModelError: None was, within *limit_s*; the message says who holds what.
        """
        try:
            async with asyncio.timeout(limit_s):
                await self.root._changed.wait()
        except TimeoutError:
            held = ", ".join(map(str, self.holders)) or "nobody"
            raise ModelError(
                f"waited {limit_s:g} s for the rest of the cost limit (max_cost_usd), held by"
                f" {held}; ask again once that has ended, or raise the limit"
            ) from None

    def check(self) -> None:
        """Raise `LimitReached` if a limit, here or above, is used up."""
        for account in self._line:
            used = account.spent + account.lost
            if account.limit and used >= account.limit:
                raise account._reached(
                    f"{dollars(used)} of {dollars(account.limit)} (max_cost_usd)"
                )

    def too_little(self, cost: int) -> LimitReached:
        """Return the error for a *cost* that exceeds the rest."""
        limited = (account for account in self._line if account.limit)
        tightest = min(limited, key=lambda each: each._unspent)
        return tightest._reached(
            f"the next call may cost {dollars(cost)}, and {dollars(tightest._unspent)} of"
            f" {dollars(tightest.limit)} is left (max_cost_usd)",
            cost,
        )

    def _reached(self, how_far: str, cost: int = 0) -> LimitReached:
        lost = f", {dollars(self.lost)} of it for replies that broke off" if self.lost else ""
        if cost > self.limit:  # a further message would end in the same way
            limit = RAISE_LIMIT if self.root is self else "this agent's share of it, so raise that"
            advice = f"; no such call fits into {limit}"
        else:
            advice = SEND_A_MESSAGE if self.root is self else "; this agent's share is used up"
        return LimitReached(f"cost limit reached: {how_far}{lost}{advice}", limit="max_cost")


# Each reply by itself, as the ledger expects it, and also the part of one that broke off.
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
                            used = event.reply.billed
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
