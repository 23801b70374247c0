"""Pauses between reads, so that one read returns several pieces of a reply.

A read costs far more CPU time than the few characters it returns: reading every small piece of a
long answer as it comes takes half as much CPU time again.
"""

from typing import Final

AFTER_PIECES: Final = 200
"""The beginning is read without pauses, so that short replies are not delayed."""

PAUSE_S: Final = 0.045
"""Less than the time between two frames."""

_THERE_ALREADY_S: Final = 0.000_5


class Gulps:
    """The pauses for one reply."""

    def __init__(self) -> None:
        self._pieces = 0

    def pause_s(self, waited_s: float) -> float:
        """Return the pause before the next read, after one that waited *waited_s*.

        0 while pieces arrive faster than they are read, or too rarely for several to accumulate.
        """
        self._pieces += 1
        is_drip = _THERE_ALREADY_S < waited_s < PAUSE_S
        return PAUSE_S if is_drip and self._pieces > AFTER_PIECES else 0.0
