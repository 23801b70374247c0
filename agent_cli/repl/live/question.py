"""The state of a question at the prompt: when Enter begins to answer it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from agent_cli.repl.live.choices import Choices

# How long the question must be shown, and the keyboard silent, before Enter answers.
SILENCE_S: Final = 0.35


@dataclass(slots=True)
class OpenQuestion:
    """A question that accepts an answer only once the user can have seen it.

    `draft` is the input's text until then, `waiting` says that a timer will check again, and
    `too_early` that a key was pressed while it was shown but did not accept answers yet. One that
    `is_known` was on the screen a moment ago and accepts answers at once.

    Only whole lines, sent with Enter, are answers. With `only_keys` only one of `keys` is; with
    `choices` there is a list, and the typed text stays in the input, because it may be the answer.
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
    is_known: bool = False
    _silent_since_s: float | None = None

    @property
    def is_unmarked(self) -> bool:
        """Whether there is a list that has no mark yet, so that Enter does not answer."""
        return self.choices is not None and not self.choices.is_marked

    @property
    def owns_text(self) -> bool:
        """Whether text in the input is an answer to it, perhaps a password, and no prompt."""
        return self.open and not self.only_keys and self.choices is None

    def shown(self) -> None:
        """Note that it is on the screen; only the first call counts."""
        if self._silent_since_s is None:
            self._silent_since_s = self.clock()

    def key_pressed(self) -> None:
        """Note a key press; before answers are accepted, the key was meant for something else."""
        if self._silent_since_s is not None and not self.is_ripe:
            self._silent_since_s = self.clock()
            self.too_early = True

    @property
    def is_ripe(self) -> bool:
        """Whether it accepts answers now."""
        return self.ripe_in_s == 0

    @property
    def ripe_in_s(self) -> float:
        """Seconds of silence still needed."""
        if self.is_known:
            return 0.0
        if self._silent_since_s is None:
            return SILENCE_S
        return max(0.0, SILENCE_S - (self.clock() - self._silent_since_s))
