"""Messages queued for an agent: steering for the current run, follow-ups for its end.

Front ends record those that were not delivered yet, so that a kill of the program loses none.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final, Literal, TypeAlias, get_args

from agent_cli.contracts.messages import CustomMessage, Message, UserMessage, typed_in
from agent_cli.contracts.options import require_one_of
from agent_cli.contracts.timeline import CustomOutput, UserOutput
from agent_cli.core.conversation import Conversation
from agent_cli.core.incoming import checked_user_message
from agent_cli.core.loop_config import LoopConfig
from agent_cli.core.projection import entries, noted
from agent_cli.core.returned_values import TakeMessages, queued
from agent_cli.system.batches import first_of

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
            with suppress(RuntimeError):  # its loop was closed
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
        """Discard all messages that were not taken, and return them."""
        discarded = list(self._messages)
        self._messages.clear()
        return discarded

    async def wait(self) -> None:
        """Return when a new message arrives; messages already queued do not count."""
        # A new event for each wait, because an event is bound to one event loop.
        waiter = (asyncio.get_running_loop(), asyncio.Event())
        self._waiters.append(waiter)
        try:
            await waiter[1].wait()
        finally:
            self._waiters.remove(waiter)


class AgentQueues:
    """Two queues, each combined with the message source that the caller's options may set."""

    def __init__(self, *, steering_mode: QueueMode, follow_up_mode: QueueMode) -> None:
        self._steering = MessageQueue(_checked(steering_mode))
        self._follow_ups = MessageQueue(_checked(follow_up_mode))

    def steer(self, message: str | UserMessage) -> None:
        """Queue *message* for the current run: after the current tools, before the next request.

        Raises:
            ConversationError: It is empty, or no message of the user's.
        """
        self._steering.put(checked_user_message(message))

    def follow_up(self, message: str | UserMessage) -> None:
        """Queue *message* for the moment the run would end; raises as `steer` does."""
        self._follow_ups.put(checked_user_message(message))

    queue_message = steer

    def clear_steering_queue(self) -> list[UserMessage]:
        """Discard the queued steering messages, and return them."""
        return self._steering.clear()

    def clear_follow_up_queue(self) -> list[UserMessage]:
        """Discard the queued follow-ups, and return them."""
        return self._follow_ups.clear()

    def clear_all_queues(self) -> list[UserMessage]:
        """Discard all queued messages, and return them."""
        return [*self.clear_steering_queue(), *self.clear_follow_up_queue()]

    def has_queued_messages(self) -> bool:
        """Return whether a message waits to be delivered."""
        return bool(self._steering or self._follow_ups)

    def set_steering_mode(self, mode: QueueMode) -> None:
        """Set how queued steering messages are delivered."""
        self._steering.mode = _checked(mode)

    def set_follow_up_mode(self, mode: QueueMode) -> None:
        """Set how queued follow-ups are delivered."""
        self._follow_ups.mode = _checked(mode)

    set_queue_mode = set_steering_mode

    def _delivered(self, message: Message) -> None:
        self._steering.delivered(message)
        self._follow_ups.delivered(message)

    def _take_back(self) -> None:
        """Put messages that an ended run took but did not deliver back at the front."""
        self._steering.take_back()
        self._follow_ups.take_back()

    def _steering_arrives(self, config: LoopConfig) -> Callable[[], Awaitable[None]]:
        own = config.wait_for_steering
        return (lambda: first_of(self._steering.wait(), own())) if own else self._steering.wait


def _checked(mode: QueueMode) -> QueueMode:
    require_one_of(mode, get_args(QueueMode), what="the mode of a queue")
    return mode


def combined(queue: MessageQueue, own: TakeMessages | None) -> TakeMessages:
    """Return a hook that takes messages from *queue* and from the caller's *own* source."""

    async def take() -> Sequence[UserMessage]:
        taken = queue.take()
        # Checked before they are lent: a message that cannot be sent must not come back.
        of_caller = [checked_user_message(message) for message in await queued(own)]
        queue.lend(of_caller)  # a run that ends before it delivers them leaves them in the queue
        return [*taken, *of_caller]

    return take


_UNSENT: Final = "unsent"


def keep_unsent(conversation: Conversation, texts: Sequence[str]) -> None:
    """Record that *texts* wait to be delivered, and no others: one entry for each change."""
    if conversation.prompts and list(texts) != _recorded(conversation):
        conversation.note(CustomMessage(_UNSENT, {"texts": list(texts)}))


def unsent(conversation: Conversation) -> list[str]:
    """Return the messages that waited when the program ended, in order."""
    texts = _recorded(conversation)
    for output in reversed([*entries(conversation.prompts)] if texts else []):
        if isinstance(output, CustomOutput) and output.name == _UNSENT:
            break
        # Delivered, but the program ended before it could record that.
        if isinstance(output, UserOutput) and typed_in(output.content) in texts:
            texts.remove(typed_in(output.content))
    return texts


def _recorded(conversation: Conversation) -> list[str]:
    prompts = reversed(conversation.prompts)  # the last one counts, and is near the end
    newest_first = (output for prompt in prompts for output in reversed(prompt.output))
    data = next(noted(newest_first, _UNSENT), None)
    texts = data.get("texts") if isinstance(data, dict) else None
    return [str(text) for text in texts] if isinstance(texts, list) else []
