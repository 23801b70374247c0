"""A question at the prompt, and from when on Enter answers it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from agent_cli.repl.live.choices import Choices

# So long the question has to stand there, and the keyboard to be silent, before Enter answers.
SILENCE_S: Final = 0.35


@dataclass(slots=True)
class OpenQuestion:
    """Waits until the person who types has seen it; `draft` is what stood in the input until then,
    `waiting` says that a timer will look again, `too_early` that a key came when it was already
    on the screen, and was not its answer.

    Only whole lines answer, sent with Enter. With `only_keys` nothing but one of `keys` does; with
    `choices` there is a list, and what was being typed stays in the input: it may be the answer.
    """

    message: str
    keys: str
    clock: Callable[[], float]
    only_keys: bool = False
    choices: Choices | None = None
    open: bool = False
    draft: str = ""
    waiting: bool = False
    too_early: bool = False
    _silent_since_s: float | None = None

    @property
    def is_unmarked(self) -> bool:
        """Whether there is a list that does not show yet that Enter answers."""
        return self.choices is not None and not self.choices.is_marked

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
