"""When the pieces of a reply are left to gather before they are read.

Each read costs the program several times what the few characters it brings do: a long answer in
small pieces, read as they come, takes half as much processor time again.
"""

from typing import Final

AFTER_PIECES: Final = 200
"""A short reply is read as it comes, so that no turn waits for its end."""

PAUSE_S: Final = 0.03
"""Less than there is between two frames."""

_THERE_ALREADY_S: Final = 0.000_5


class Gulps:
    """The reading of one reply."""

    def __init__(self) -> None:
        self._pieces = 0

    def pause_s(self, waited_s: float) -> float:
        """Return how long to leave the next pieces alone, after one that took *waited_s* to come.

        Nothing while pieces are there faster than they are read, or so rarely that none would
        gather.
        """
        self._pieces += 1
        is_drip = _THERE_ALREADY_S < waited_s < PAUSE_S
        return PAUSE_S if is_drip and self._pieces > AFTER_PIECES else 0.0
