"""What hooks that run in the background tell the model when they end, and when it hears them."""

from collections.abc import Callable, Sequence
from typing import Final

from agent_cli.contracts.events import EventSink, Notice
from agent_cli.hooks.runs import Ran

WOKEN_MAX: Final = 20
"""How often hooks begin or prolong a run after a prompt of the user's."""


class LateWords:
    """Keeps the words until the next model call; those of an `asyncRewake` hook bring it about.

    Attributes:
        wake: Begins a run as soon as the session is idle, if what it is given returns True then.
    """

    def __init__(self, publish: EventSink) -> None:
        """Keep nothing yet; *publish* shows what concerns the user."""
        self.wake: Callable[[Callable[[], bool]], None] = lambda _has_news: None
        self._publish = publish
        self._words: list[str] = []
        self._is_waking = False
        self._woken = 0

    def add(self, ran: Ran) -> None:
        """Keep the words of a hook that has ended."""
        hook, answer = ran.hook, ran.answer
        for text in answer.messages:
            self._publish(Notice("warning", text))
        if not hook.wakes or ran.outcome.fault or ran.outcome.code != 2:
            self._words += answer.contexts
            return
        self._words.append("\n".join(filter(None, (hook.wake_message, *answer.contexts))))
        self._publish(Notice("info", hook.wake_summary or f"hook {hook.shown} has news"))
        if self._woken == WOKEN_MAX:
            told = f"hooks woke the model {WOKEN_MAX} times; they wait for your next prompt now"
            self._publish(Notice("warning", told))
        self._is_waking = self._woken < WOKEN_MAX
        self._woken += 1
        self.wake(self.are_waking)

    def are_waking(self) -> bool:
        """Return whether there are words for which a run should begin or go on."""
        return self._is_waking

    def take(self) -> Sequence[str]:
        """Return all words that the model was not told yet."""
        words, self._words = self._words, []
        self._is_waking = False
        return words

    def take_waking(self) -> Sequence[str]:
        """Return all words, if one of the hooks wants the run to go on for them."""
        return self.take() if self._is_waking else ()

    def user_spoke(self) -> None:
        """Count from here: the user is there."""
        self._woken = 0
