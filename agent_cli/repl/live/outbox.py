"""Messages typed during a run that are not delivered to the model yet."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile

from agent_cli.attachments.attachments import Attachments
from agent_cli.contracts.messages import Message, UserMessage
from agent_cli.core.agent import Agent
from agent_cli.core.message_queue import keep_unsent
from agent_cli.repl.live.queue_edit import Queued
from agent_cli.system.records import dataclass


@dataclass(slots=True, eq=False)
class _Letter(Queued):
    """Typed text; once it has a `message`, that can wait in a queue of the agent: `is_passed`."""

    follow_up: bool = False
    message: UserMessage | None = None
    is_passed: bool = False


class Outbox:
    """Undelivered messages, in the order they were typed or moved to.

    One that is held, or not ready, keeps the later ones of its kind back.
    """

    def __init__(
        self, agent: Agent, attachments: Attachments, give_back: Callable[[str], object]
    ) -> None:
        """Start empty; *give_back* gets a text that cannot be sent, e.g. with a damaged picture."""
        self._agent = agent
        self._attachments = attachments
        self._give_back = give_back
        self._letters: list[_Letter] = []
        self._turn = asyncio.Lock()

    def __len__(self) -> int:
        return len(self._letters)

    @property
    def messages(self) -> Sequence[Queued]:
        """The messages in order."""
        return self._letters

    @property
    def can_deliver(self) -> bool:
        """Whether a message is not held back."""
        return any(not self._is_blocked(each, by_unready=False) for each in self._letters)

    def put(self, text: str, *, follow_up: bool) -> None:
        """Queue *text*: for the next request, or for the end of the run; see `hand_over`."""
        when = "when done" if follow_up else "after this step"
        self._letters.append(_Letter(text, when, follow_up=follow_up))

    async def hand_over(self) -> None:
        """Pass the queued messages to the agent in order; pictures may have to be waited for.

        Raises:
            Exception: A text cannot be sent, e.g. with a damaged picture; it was given back.
        """
        async with self._turn:
            while letter := next(self._unready(), None):
                text = letter.text
                try:
                    message = await self._attachments.attached(UserMessage.of(text))
                except Exception:  # a text that stayed would be tried again for ever
                    if letter in self._letters and not letter.is_held:
                        self._letters.remove(letter)
                        self._give_back(letter.text)
                    raise
                if letter.text == text:
                    letter.message = message
                self._pass_on()

    def delivered(self, message: Message) -> bool:
        """Remove *message*; return whether it was queued here."""
        if not isinstance(message, UserMessage):
            return False
        content = message.content  # recorded with another time, but the identical content object
        letters = (each for each in self._letters if each.message)
        found = next((q for q in letters if q.message and q.message.content is content), None)
        if found is None:
            return False
        self._letters.remove(found)
        return True

    def hold(self, message: Queued) -> bool:
        """Keep *message* from being delivered; False if a run has taken it already."""
        self._withdraw()
        letter = self._find(message)
        if letter and not letter.is_passed:
            letter.is_held = True
        self._pass_on()
        return bool(letter and letter.is_held)

    def release(self, message: Queued, text: str) -> bool:
        """Put a held *message* back with another *text*; drop it if that is empty.

        Returns:
            Whether it is queued here.
        """
        letter = self._find(message)
        if letter is None:
            return False
        letter.is_held = False
        if not text:
            self._letters.remove(letter)
        elif text != letter.text:
            letter.text, letter.message = text, None
        self._pass_on()
        return True

    def move(self, message: Queued, by: int) -> None:
        """Move a held *message* *by* places among the messages that are sent together with it."""
        letter = self._find(message)
        if letter is None:
            return
        self._withdraw()
        same = [at for at, each in enumerate(self._letters) if each.follow_up == letter.follow_up]
        index = same.index(self._letters.index(letter))
        other = same[min(max(index + by, 0), len(same) - 1)]
        if not self._letters[other].is_passed:
            self._letters.remove(letter)
            self._letters.insert(other, letter)
        self._pass_on()

    def take_all(self) -> list[str]:
        """Remove all queued texts and return them."""
        self._agent.clear_all_queues()
        texts = [letter.text for letter in self._letters]
        self._letters = []
        return texts

    def _find(self, message: Queued) -> _Letter | None:
        return next((each for each in self._letters if each is message), None)

    def _unready(self) -> Iterator[_Letter]:
        return (each for each in self._letters if each.message is None and not each.is_held)

    def _withdraw(self) -> None:
        """Take the messages out of the agent's queues, except messages that a run has taken."""
        waiting = {id(message) for message in self._agent.clear_all_queues()}
        for letter in self._letters:
            letter.is_passed = letter.is_passed and id(letter.message) not in waiting

    def _is_blocked(self, letter: _Letter, *, by_unready: bool = True) -> bool:
        """Return whether the message, or an earlier message of its kind, is held or not ready."""
        earlier = takewhile(lambda each: each is not letter, self._letters)
        same = [each for each in earlier if each.follow_up == letter.follow_up]
        return any(
            each.is_held or (by_unready and each.message is None) for each in (*same, letter)
        )

    def _pass_on(self) -> None:
        for letter in self._letters:
            if letter.message and not letter.is_passed and not self._is_blocked(letter):
                letter.is_passed = True
                put = self._agent.follow_up if letter.follow_up else self._agent.steer
                put(letter.message)


class UnsentRecord:
    """Records the queued messages in the conversation, so that a kill loses none."""

    def __init__(self, agent: Agent, recalled: Callable[[str], str]) -> None:
        """Keep nothing yet; *recalled* returns a text without marks of this session's input."""
        self._agent = agent
        self._recalled = recalled
        self._is_closed = False

    def keep(self, messages: Sequence[Queued]) -> None:
        """Record that *messages*, and no others, are queued."""
        if not self._is_closed:
            texts = [self._recalled(each.text) for each in messages]
            keep_unsent(self._agent.conversation, texts)

    def close(self, messages: Sequence[Queued]) -> None:
        """Record *messages*, and leave the record as it is then: the session ends."""
        self.keep(messages)
        self._is_closed = True
