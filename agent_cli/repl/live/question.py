"""A question at the prompt, and from when on keys answer it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

# So long the question has to stand there, and the keyboard to be silent, before a key answers.
SILENCE_S: Final = 0.35


@dataclass(slots=True)
class Question:
    """Waits until whoever types has seen it; `draft` is what stood in the input until then,
    `waiting` says that a timer will look again, `too_early` that a key came when it was already
    on the screen, and was not its answer.

    Each of `keys` answers alone while nothing else is typed; with `only_keys` nothing else does.
    """

    message: str
    keys: str
    clock: Callable[[], float]
    only_keys: bool = False
    open: bool = False
    draft: str = ""
    waiting: bool = False
    too_early: bool = False
    _silent_since_s: float | None = None

    def shown(self) -> None:
        """Note that it is on the screen; only the first time counts."""
        if self._silent_since_s is None:
            self._silent_since_s = self.clock()

    def key_pressed(self) -> None:
        """Note that somebody types; unless it is open, the key was meant for something else."""
        if self._silent_since_s is not None and not self.is_ripe:
            self._silent_since_s = self.clock()
            self.too_early = True

    @property
    def is_ripe(self) -> bool:
        """Whether it stands there long enough."""
        return self.ripe_in_s == 0

    @property
    def ripe_in_s(self) -> float:
        """Seconds of silence that are still missing."""
        if self._silent_since_s is None:
            return SILENCE_S
        return max(0.0, SILENCE_S - (self.clock() - self._silent_since_s))
