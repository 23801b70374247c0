"""Messages that wait for their moment: steering, or follow-ups."""

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Literal, TypeAlias

from agent_cli.contracts.messages import Message, UserMessage

QueueMode: TypeAlias = Literal["one_at_a_time", "all"]


class MessageQueue:
    """First in, first out; `mode` says how many leave at once. `put` may come from any thread."""

    def __init__(self, mode: QueueMode) -> None:
        self.mode: QueueMode = mode
        self._messages: deque[UserMessage] = deque()
        self._taken: list[UserMessage] = []
        self._waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def __bool__(self) -> bool:
        return bool(self._messages)

    def put(self, message: UserMessage) -> None:
        """Queue *message*."""
        self._messages.append(message)
        for loop, arrived in tuple(self._waiters):
            loop.call_soon_threadsafe(arrived.set)

    def take(self) -> list[UserMessage]:
        """Take what is to be delivered now."""
        count = len(self._messages) if self.mode == "all" else min(1, len(self._messages))
        taken = [self._messages.popleft() for _ in range(count)]
        self._taken += taken
        return taken

    def lend(self, messages: Iterable[UserMessage]) -> None:
        """Treat *messages*, which came from elsewhere, as if they had been taken from here."""
        self._taken += messages

    @property
    def undelivered(self) -> tuple[UserMessage, ...]:
        """What was taken, or lent, and is not part of the conversation yet."""
        return tuple(self._taken)

    def delivered(self, message: Message) -> None:
        """Forget *message* if it was taken from here: it is part of the conversation now.

        What is recorded has a time of its own and the same content, the very same. Who queued one
        message twice has it delivered twice.
        """
        if isinstance(message, UserMessage):
            same = (i for i, taken in enumerate(self._taken) if taken.content is message.content)
            if (first := next(same, None)) is not None:
                del self._taken[first]

    def take_back(self) -> None:
        """Put to the front what was taken by a run that ended before it was delivered."""
        self._messages.extendleft(reversed(self._taken))
        self._taken = []

    def clear(self) -> list[UserMessage]:
        """Take everything back."""
        taken = list(self._messages)
        self._messages.clear()
        return taken

    async def wait(self) -> None:
        """Return when a message arrives; those that are queued already do not count."""
        # An event of its own for each wait: an event belongs to one event loop for good.
        waiter = (asyncio.get_running_loop(), asyncio.Event())
        self._waiters.append(waiter)
        try:
            await waiter[1].wait()
        finally:
            self._waiters.remove(waiter)
