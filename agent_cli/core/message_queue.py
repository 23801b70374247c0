"""Messages queued for an agent: steering for the current run, follow-ups for its end.

Front ends record those that were not delivered yet, so that a kill of the program loses none. So do
they with what the user's own commands printed, which goes with the next message.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, Literal, TypeAlias, TypeVar, get_args

from agent_cli.contracts.authors import USER
from agent_cli.contracts.messages import CustomMessage, Incoming, Message, UserMessage, typed_in
from agent_cli.contracts.options import require_one_of
from agent_cli.contracts.timeline import (
    Block,
    CustomOutput,
    Json,
    UserOutput,
    text_block,
    text_of,
)
from agent_cli.contracts.wording import first_named, one_line
from agent_cli.core.conversation import Conversation
from agent_cli.core.incoming import checked_user_message
from agent_cli.core.projection import noted
from agent_cli.core.returned_values import TakeMessages, queued
from agent_cli.system.batches import first_of
from agent_cli.system.records import dataclass
from agent_cli.system.sanitize import reveal

QueueMode: TypeAlias = Literal["one_at_a_time", "all"]
IncomingT = TypeVar("IncomingT", bound=Incoming)


class MessageQueue:
    """A FIFO queue; its mode says how many messages leave at once. `put` is thread-safe."""

    def __init__(self, mode: QueueMode) -> None:
        self.set_mode(mode)
        self._messages: deque[UserMessage] = deque()
        self._taken: list[UserMessage] = []
        self._waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def __bool__(self) -> bool:
        return bool(self._messages)

    def set_mode(self, mode: QueueMode) -> None:
        """Deliver the first message at a time, or all at once."""
        require_one_of(mode, get_args(QueueMode), what="the mode of a queue")
        self._mode = mode

    def put(self, message: UserMessage) -> None:
        """Queue *message*."""
        self._messages.append(message)
        for loop, arrived in tuple(self._waiters):
            with suppress(RuntimeError):  # its loop was closed
                loop.call_soon_threadsafe(arrived.set)

    def take(self) -> list[UserMessage]:
        """Take the messages to deliver now: the first one, or all of them."""
        count = len(self._messages) if self._mode == "all" else min(1, len(self._messages))
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


def combined(queue: MessageQueue, own: TakeMessages | None) -> TakeMessages:
    """Return a hook that takes messages from *queue* and from the caller's *own* source."""

    async def take() -> Sequence[UserMessage]:
        taken = queue.take()
        # Checked before they are lent: a message that cannot be sent must not come back.
        of_caller = [checked_user_message(message) for message in await queued(own)]
        queue.lend(of_caller)  # a run that ends before it delivers them leaves them in the queue
        return [*taken, *of_caller]

    return take


def arrival(
    queue: MessageQueue, own: Callable[[], Awaitable[None]] | None
) -> Callable[[], Awaitable[None]]:
    """Return a hook that waits for a message in *queue* or from the caller's *own* source."""
    return (lambda: first_of(queue.wait(), own())) if own else queue.wait


_UNSENT: Final = "unsent"


def keep_unsent(conversation: Conversation, texts: Sequence[str]) -> None:
    """Record that *texts* wait to be delivered, and no others: one entry for each change."""
    if conversation.prompts and list(texts) != _recorded(conversation):
        conversation.note(CustomMessage(_UNSENT, {"texts": list(texts)}))


def unsent(conversation: Conversation) -> list[str]:
    """Return the messages that waited when the program ended, in order."""
    texts = _recorded(conversation)
    for output in reversed(conversation.between_replies if texts else ()):
        if isinstance(output, CustomOutput) and output.name == _UNSENT:
            break
        # Delivered, but the program ended before it could record that.
        if isinstance(output, UserOutput) and typed_in(output.content) in texts:
            texts.remove(typed_in(output.content))
    return texts


def _recorded(conversation: Conversation) -> list[str]:
    data = next(noted(reversed(conversation.between_replies), _UNSENT), None)  # the last counts
    texts = data.get("texts") if isinstance(data, dict) else None
    return [str(text) for text in texts] if isinstance(texts, list) else []


_OWN_OUTPUT: Final = "own_commands"
_NAMED_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class OwnOutput:
    """The `text` for the model about a `command` of the user."""

    command: str
    text: str


def keep_own_output(conversation: Conversation, output: OwnOutput) -> bool:
    """Record *output*; False before the first prompt, as such a session is not kept."""
    if conversation.prompts:
        data: Json = {"command": output.command, "text": output.text}
        conversation.note(CustomMessage(_OWN_OUTPUT, data))
    return bool(conversation.prompts)


def own_outputs(conversation: Conversation) -> list[OwnOutput]:
    """Return the recorded outputs that no message has taken, in order."""
    waiting: list[OwnOutput] = []
    for entry in conversation.between_replies:
        match entry:
            case CustomOutput(name=name, data={"command": command, "text": text}) if (
                name == _OWN_OUTPUT
            ):
                waiting.append(OwnOutput(str(command), str(text)))
            case UserOutput() if waiting:
                sent = text_of(entry.content)
                waiting = [each for each in waiting if each.text not in sent]
            case _:
                pass
    return waiting


def told_of_outputs(conversation: Conversation, *, left: bool = False) -> str:
    """Return the sentence for who goes on with a session, or *left* it; "" if nothing waits."""
    commands = [f"`{one_line(reveal(each.command))}`" for each in own_outputs(conversation)]
    if not commands:
        return ""
    outputs = f"the output of {first_named(commands, _NAMED_MAX)}"
    if left:
        return f"{outputs} waits in the session you left"
    return f"your next message takes along {outputs}"


def with_outputs(conversation: Conversation, message: IncomingT) -> IncomingT:
    """Return *message* with the recorded outputs before it, if the user wrote it.

    Every front end sends it through here; what it has already is not repeated.
    """
    if not isinstance(message, UserMessage) or message.author != USER:
        return message
    text = message.text
    outputs = [each.text for each in own_outputs(conversation) if each.text not in text]
    return replace(message, content=(*as_block(outputs), *message.content))


def as_block(texts: Sequence[str]) -> tuple[Block, ...]:
    """Return the block that goes before a message; none without *texts*."""
    return (text_block("\n".join([*texts, ""])),) if texts else ()
