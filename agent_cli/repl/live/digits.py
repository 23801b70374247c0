"""Digits that answer a list without Enter, once no key followed."""

import asyncio
import math
from collections.abc import Callable
from typing import Final

from agent_cli.repl.live.asking import SILENCE_S, OpenQuestion
from agent_cli.repl.live.screen import LiveScreen

# Until a list was on the screen for so long, a digit waits: it may begin a sentence that is typed
# blind, slowly, or over a slow connection.
READ_S: Final = 1.0
# Some press Enter behind a digit all the same: it must not answer the question that follows.
_ENTER_S: Final = 1.5


class Digits:
    """Answers with a digit that was typed alone: `2 is wrong, because` is a sentence.

    Only the key itself begins to wait, and any other ends that: an arrow moves the mark, an editor
    may open, and a paste or what is left of a deleted text was not meant as an answer.

    Attributes:
        ends_digit: Whether the key pressed now would be the Enter of a digit that has answered.
    """

    ends_digit = False

    def __init__(self, screen: LiveScreen, answer: Callable[[], None]) -> None:
        """Wait for nothing yet; *answer* takes the text of the input as Enter does."""
        self._screen = screen
        self._answer = answer
        self._timer: asyncio.TimerHandle | None = None
        self._clock: Callable[[], float] = lambda: 0.0
        self._answered_at_s = -math.inf

    def key_pressed(self, _keys: object) -> None:
        """Note a key before it does something."""
        if self._timer:
            self._timer.cancel()
        self.ends_digit = self._clock() - self._answered_at_s < _ENTER_S
        self._answered_at_s = -math.inf

    def typed(self) -> None:
        """Begin to wait if the character that was just inserted is an answer."""
        screen = self._screen
        question, choices, text = screen.asking.question, screen.asking.choices, screen.draft.text
        # One that was typed before the list could be read waits for Enter.
        if question is None or choices is None or not question.is_ripe or screen.queue.is_active:
            return
        if choices.takes_at_once(text):
            self._clock = question.clock
            since_s = question.silent_since_s or 0.0
            self._wait(question, text, max(self._clock() + SILENCE_S, since_s + READ_S))

    def _wait(self, question: OpenQuestion, text: str, until_s: float) -> None:
        left_s = until_s - self._clock()
        if left_s > 0:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(left_s, self._wait, question, text, until_s)
        elif self._screen.asking.question is question and self._screen.draft.text == text:
            self._answered_at_s = self._clock()
            self._answer()
