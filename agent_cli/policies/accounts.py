"""Limits of cost, one below the other: what was spent, is held and was lost, and what is left.

All amounts are whole micro-dollars.
"""

import asyncio
from typing import Final

from agent_cli.contracts.errors import LimitReached

MICRODOLLARS: Final = 1_000_000


class Account:
    """What one agent spends and may spend; what it does counts for each account above, too.

    Attributes:
        limit: Of its own; 0 sets none.
        spent: What the API reported.
        held: What calls may cost that go on.
        lost: What calls may have cost that broke off.
    """

    def __init__(self, limit: int = 0, parent: "Account | None" = None) -> None:
        """Open an account below *parent*, whose limit counts too."""
        self.limit = limit
        self.spent = self.held = self.lost = 0
        self._is_root = parent is None
        self._line: tuple[Account, ...] = (self, *(parent._line if parent else ()))
        self._changed = asyncio.Event()

    @property
    def is_limited(self) -> bool:
        """Whether a limit holds, its own or one above."""
        return any(account.limit for account in self._line)

    def add(self, *, spent: int = 0, held: int = 0, lost: int = 0) -> None:
        """Book amounts here and above, and wake whoever waits for a change."""
        for account in self._line:
            account.spent += spent
            account.held += held
            account.lost += lost
        root = self._line[-1]
        root._changed.set()
        root._changed = asyncio.Event()

    def left(self, *, at_best: bool = False) -> int:
        """Return what may be reserved; *at_best* if calls that go on turn out to cost nothing."""
        return min(
            account.limit - account.spent - account.lost - (0 if at_best else account.held)
            for account in self._line
            if account.limit
        )

    async def changed(self) -> None:
        """Return when an amount was booked anywhere in the tree."""
        await self._line[-1]._changed.wait()

    def check(self) -> None:
        """Raise `LimitReached` if nothing is left, here or above."""
        for account in self._line:
            used = account.spent + account.lost
            if account.limit and used >= account.limit:
                raise account._reached(f"{dollars(used)} of {dollars(account.limit)} (max_cost)")

    def too_little(self, cost: int) -> LimitReached:
        """Return the error that says that *cost* is more than is left."""
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


def dollars(microdollars: int) -> str:
    """Return an amount as a person reads it, with no more digits than it needs."""
    text = f"{microdollars / MICRODOLLARS:.4f}".rstrip("0")
    whole, _, cents = text.partition(".")
    return f"${whole}.{cents:0<2}" if cents else f"${whole}"
