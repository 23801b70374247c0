"""The cost limit of all tasks: a share is reserved before each run and settled after it.

All amounts are whole micro-dollars.
"""

from typing import Final

# Less does not pay for one model call, so the run would end at its limit at once.
_LEAST_SHARE: Final = 10_000


class Budget:
    """Spent and reserved amounts together never exceed the limit.

    Attributes:
        limit: 0 means no limit.
        spent: Cost of the runs that have ended.
        held: Reservations of the runs that go on.
    """

    def __init__(self, limit: int) -> None:
        """Spend nothing yet."""
        self.limit = limit
        self.spent = self.held = 0

    @property
    def left(self) -> int:
        """The amount that may still be reserved."""
        return self.limit - self.spent - self.held

    def reserve(self, cap: int, *, tasks: int) -> int | None:
        """Reserve the cost limit of one run; 0 means no limit.

        Args:
            cap: The limit of the task; without one (0) it gets an equal share of what is left.
            tasks: The number of tasks that are not started yet, this one included.

        Returns:
            The amount; None if too little is left.
        """
        if not self.limit:
            return cap
        amount = cap or self.left // max(1, tasks)
        if amount > self.left or (not cap and amount < _LEAST_SHARE):
            return None
        self.held += amount
        return amount

    def settle(self, reserved: int, spent: int) -> None:
        """Replace the reservation of a run by its cost."""
        if self.limit:
            self.held -= reserved
        self.spent += spent
