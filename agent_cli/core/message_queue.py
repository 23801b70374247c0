"""A queue of steering or follow-up messages."""

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Literal, TypeAlias

from agent_cli.contracts.messages import Message, UserMessage

QueueMode: TypeAlias = Literal["one_at_a_time", "all"]


class MessageQueue:
    """A FIFO queue; `mode` says how many messages leave at once. `put` is thread-safe."""

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
        """Take the messages to deliver now: the first one, or all of them."""
        count = len(self._messages) if self.mode == "all" else min(1, len(self._messages))
        taken = [self._messages.popleft() for _ in range(count)]
        self._taken += taken
        return taken

    def lend(self, messages: Iterable[UserMessage]) -> None:
        """Treat *messages* from another source as if they had been taken from this queue."""
        self._taken += messages

    @property
    def undelivered(self) -> tuple[UserMessage, ...]:
        """Messages taken or lent that are not part of the conversation yet."""
        return tuple(self._taken)

    def delivered(self, message: Message) -> None:
        """Drop *message* from `undelivered`: it is part of the conversation now.

        The recorded copy has another time but the identical content object. A message queued twice
        is delivered twice.
        """
        if isinstance(message, UserMessage):
            same = (i for i, taken in enumerate(self._taken) if taken.content is message.content)
            if (first := next(same, None)) is not None:
                del self._taken[first]

    def take_back(self) -> None:
        """Put messages that an ended run took but did not deliver back at the front."""
        self._messages.extendleft(reversed(self._taken))
        self._taken = []

    def clear(self) -> list[UserMessage]:
        """Discard all messages."""
        taken = list(self._messages)
        self._messages.clear()
        return taken

    async def wait(self) -> None:
        """Return when a new message arrives; messages already queued do not count."""
        # A new event for each wait, because an event is bound to one event loop.
        waiter = (asyncio.get_running_loop(), asyncio.Event())
        self._waiters.append(waiter)
        try:
            await waiter[1].wait()
        finally:
            self._waiters.remove(waiter)
