"""Messages typed during a run that the model has not got yet."""

from dataclasses import dataclass
from typing import Final

from agent_cli.agent import Agent
from agent_cli.messages import Message, UserMessage
from agent_cli.terminal.narration import one_line
from agent_cli.terminal.sanitize import clean

_SHOWN_CHARS_MAX: Final = 60


@dataclass(frozen=True, slots=True)
class _Queued:
    message: UserMessage
    follow_up: bool


class Outbox:
    """What waits in the agent's two queues, in the order it was typed."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._queued: list[_Queued] = []

    def __bool__(self) -> bool:
        return bool(self._queued)

    def put(self, message: UserMessage, *, follow_up: bool) -> None:
        """Queue *message*: for the next request, or for when the run would end."""
        self._queued.append(_Queued(message, follow_up))
        self._hand_over(self._queued[-1])

    def delivered(self, message: Message) -> bool:
        """Return whether *message* waited here; it does no longer."""
        left = [queued for queued in self._queued if queued.message is not message]
        was_here = len(left) < len(self._queued)
        self._queued = left
        return was_here

    def take_back(self) -> str | None:
        """Return the text queued last, and queue it no longer; None when all is on its way."""
        waiting = self._agent.clear_all_queues()
        at = next(
            (
                index
                for index, queued in reversed(list(enumerate(self._queued)))
                if any(queued.message is message for message in waiting)
            ),
            None,
        )
        taken = None if at is None else self._queued.pop(at)
        for queued in self._queued:
            if any(queued.message is message for message in waiting):
                self._hand_over(queued)
        return taken.message.text if taken else None

    def take_all(self) -> list[str]:
        """Return everything that waits, and queue nothing of it any longer."""
        self._agent.clear_all_queues()
        texts = [queued.message.text for queued in self._queued]
        self._queued = []
        return texts

    def rows(self) -> list[str]:
        """Return one line for each message: when it goes, and how it begins."""
        return [
            f"  {'then' if queued.follow_up else 'next'}: "
            f"{clean(one_line(queued.message.text, _SHOWN_CHARS_MAX))}"
            for queued in self._queued
        ]

    def _hand_over(self, queued: _Queued) -> None:
        if queued.follow_up:
            self._agent.follow_up(queued.message)
        else:
            self._agent.steer(queued.message)
