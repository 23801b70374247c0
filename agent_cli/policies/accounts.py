"""Nested cost limits: the amounts spent, reserved and lost, and the rest.

All amounts are whole micro-dollars.
"""

import asyncio

from agent_cli.contracts.errors import LimitReached
from agent_cli.contracts.money import dollars


class Account:
    """The spending and limit of one agent; its amounts also count for each account above it.

    Attributes:
        limit: Its own limit; 0 is no limit.
        spent: The cost of usage that the API reported.
        held: The reserved cost of running calls.
        lost: The possible cost of calls that broke off.
    """

    def __init__(self, limit: int = 0, parent: "Account | None" = None) -> None:
        """Open an account below *parent*, whose limit applies as well."""
        self.limit = limit
        self.spent = self.held = self.lost = 0
        self._is_root = parent is None
        self._line: tuple[Account, ...] = (self, *(parent._line if parent else ()))
        self._changed = asyncio.Event()

    @property
    def is_limited(self) -> bool:
        """Whether any limit applies, its own or one above."""
        return any(account.limit for account in self._line)

    def add(self, *, spent: int = 0, held: int = 0, lost: int = 0) -> None:
        """Book amounts here and above, and wake tasks that wait for a change."""
        for account in self._line:
            account.spent += spent
            account.held += held
            account.lost += lost
        root = self._line[-1]
        root._changed.set()
        root._changed = asyncio.Event()

    def left(self, *, at_best: bool = False) -> int:
        """Return the amount that may be reserved; *at_best* assumes running calls cost nothing."""
        return min(
            account.limit - account.spent - account.lost - (0 if at_best else account.held)
            for account in self._line
            if account.limit
        )

    def affordable(self) -> int:
        """Return its limit, or what is left above if that is less."""
        above = [each.limit - each.spent - each.lost for each in self._line[1:] if each.limit]
        least = min([self.limit, *above] if self.limit else above)
        return max(least, 0)

    async def changed(self) -> None:
        """Return when an amount was booked anywhere in the tree."""
        await self._line[-1]._changed.wait()

    def check(self) -> None:
        """Raise `LimitReached` if a limit, here or above, is used up."""
        for account in self._line:
            used = account.spent + account.lost
            if account.limit and used >= account.limit:
                raise account._reached(f"{dollars(used)} of {dollars(account.limit)} (max_cost)")

    def too_little(self, cost: int) -> LimitReached:
        """Return the error for a *cost* that exceeds the rest."""
        limited = (account for account in self._line if account.limit)
        tightest = min(limited, key=lambda each: each.limit - each.spent - each.lost)
        left = tightest.limit - tightest.spent - tightest.lost
        return tightest._reached(
            f"the next call may cost {dollars(cost)}, and {dollars(left)} of"
            f" {dollars(tightest.limit)} is left (max_cost)"
        )

    def _reached(self, how_far: str) -> LimitReached:
        lost = f", {dollars(self.lost)} of it for replies that broke off" if self.lost else ""
        advice = "send a message to continue" if self._is_root else "this agent's share is used up"
        return LimitReached(f"cost limit reached: {how_far}{lost}; {advice}", limit="max_cost")
