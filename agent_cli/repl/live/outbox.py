"""Messages typed during a run that are not delivered to the model yet."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from agent_cli.attachments.attachments import Attachments
from agent_cli.contracts.messages import Message, UserMessage
from agent_cli.core.agent import Agent
from agent_cli.repl.live.listener import queue_row


@dataclass(slots=True, eq=False)
class _Queued:
    """Typed text; once it has a `message`, that waits in a queue of the agent."""

    text: str
    follow_up: bool
    message: UserMessage | None = None


class Outbox:
    """Undelivered messages, in the order they were typed."""

    def __init__(
        self, agent: Agent, attachments: Attachments, give_back: Callable[[str], None]
    ) -> None:
        """Start empty; *give_back* gets a text that cannot be sent, e.g. with a damaged picture."""
        self._agent = agent
        self._attachments = attachments
        self._give_back = give_back
        self._queued: list[_Queued] = []
        self._turn = asyncio.Lock()

    def __len__(self) -> int:
        return len(self._queued)

    def put(self, text: str, *, follow_up: bool) -> None:
        """Queue *text*: for the next request, or for the end of the run; see `hand_over`."""
        self._queued.append(_Queued(text, follow_up))

    async def hand_over(self) -> None:
        """Pass the queued messages to the agent in order; pictures may have to be waited for.

        Raises:
            Exception: A text cannot be sent, e.g. with a damaged picture; it was given back.
        """
        async with self._turn:
            while queued := next((each for each in self._queued if each.message is None), None):
                try:
                    message = await self._attachments.attached(UserMessage.of(queued.text))
                except Exception:  # a text that stayed would be tried again for ever
                    if queued in self._queued:
                        self._queued.remove(queued)
                        self._give_back(queued.text)
                    raise
                if queued in self._queued:  # still queued
                    queued.message = message
                    self._pass_on(queued)

    def delivered(self, message: Message) -> bool:
        """Remove *message*; return whether it was queued here."""
        if not isinstance(message, UserMessage):
            return False
        content = message.content  # recorded with another time, but the identical content object
        queued = (each for each in self._queued if each.message)
        found = next((q for q in queued if q.message and q.message.content is content), None)
        if found is None:
            return False
        self._queued.remove(found)
        return True

    def take_back(self) -> str | None:
        """Remove the text queued last and return it; None if there is none."""
        waiting = {id(message) for message in self._agent.clear_all_queues()}
        left = [each for each in self._queued if not each.message or id(each.message) in waiting]
        taken = left.pop() if left else None
        for each in left:
            self._pass_on(each)
        if taken is None:
            return None
        self._queued.remove(taken)
        return taken.text

    def take_all(self) -> list[str]:
        """Remove all queued texts and return them."""
        self._agent.clear_all_queues()
        texts = [queued.text for queued in self._queued]
        self._queued = []
        return texts

    def rows(self) -> list[str]:
        """Return one line for each message: when it will be sent, and its beginning."""
        return [
            queue_row(queued.text, when="when done" if queued.follow_up else "after this step")
            for queued in self._queued
        ]

    def _pass_on(self, queued: _Queued) -> None:
        if queued.message is None:
            return
        if queued.follow_up:
            self._agent.follow_up(queued.message)
        else:
            self._agent.steer(queued.message)
