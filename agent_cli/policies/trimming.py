"""Split the history into units that a cut can leave out, and limit it by leaving out the oldest."""

from collections.abc import Iterator, Sequence
from itertools import accumulate

from agent_cli.contracts.events import Notice
from agent_cli.contracts.messages import Message, UserMessage
from agent_cli.contracts.options import USER_WORDS_CHARS
from agent_cli.contracts.timeline import (
    BlockOutput,
    CompactionOutput,
    Output,
    ReplyOutput,
    TrimOutput,
    UserOutput,
)
from agent_cli.contracts.wording import counted
from agent_cli.core.conversation import Conversation
from agent_cli.core.projection import entries, is_summary, messages, shown
from agent_cli.core.turn import Turn
from agent_cli.policies.estimate import CHARS_PER_TOKEN
from agent_cli.policies.user_words import WORDS_SHARE, cut_note
from agent_cli.system.records import dataclass


class Trimming:
    """A `prepare` contributor.

    Args:
        max_messages: 0 is no limit.
        words_chars: Characters of what the user said that stay word for word.
        can_recall: The agent has the tool `recall`, to which the note of a cut may refer.
    """

    def __init__(
        self, *, max_messages: int, words_chars: int = USER_WORDS_CHARS, can_recall: bool = True
    ) -> None:
        self._max_messages = max_messages
        self._words_chars = words_chars
        self._can_recall = can_recall

    def __call__(self, turn: Turn) -> None:
        """Trim before the model is asked; a warning says how many messages were dropped."""
        if turn.conversation.open_calls():
            return  # this turn only runs these calls; the model is not asked
        window_chars = turn.model.context_window * CHARS_PER_TOKEN
        removed = trim_history(
            turn.conversation,
            max_messages=self._max_messages,
            words_chars=min(self._words_chars, int(WORDS_SHARE * window_chars)),
            can_recall=self._can_recall,
        )
        if removed:
            turn.emit(
                Notice(
                    "warning",
                    f"dropped the oldest {counted(removed, 'message')}: the conversation exceeded"
                    f" max_conversation_messages = {self._max_messages}",
                )
            )


def trim_history(
    conversation: Conversation,
    *,
    max_messages: int,
    words_chars: int = USER_WORDS_CHARS,
    can_recall: bool = True,
) -> int:
    """Leave out the oldest rounds after the first user message if there are too many messages.

    It trims to three quarters of the limit: each cut invalidates the prompt cache, so one cut has
    to serve many turns. A round is never split, so the last one may exceed the limit; a summary
    stays. A note with what the user said stands in place of the rest; it does not count, because
    it is sent as a part of the first message.

    Args:
        conversation: The conversation to limit.
        max_messages: 0 is no limit.
        words_chars: Characters of what the user said that stay word for word.
        can_recall: The agent has the tool `recall`, to which the note may refer.

    Returns:
        The number of messages left out.
    """
    if not max_messages:
        return 0  # checked first, because a limit is rarely set
    history = history_of(conversation)
    removed = [0, *accumulate(len(each.messages) for each in history.rounds)]
    summaries = [each for each in history.summary if _is_summary(each)]
    length = len(history.first) + len(summaries) + removed[-1]
    cuts = history.cuts()
    if not cuts or length <= max_messages:
        return 0
    targets = (max_messages - max_messages // 4, max_messages)
    reached = (i for target in targets for i in cuts if length - removed[i] <= target)
    cut = next(reached, cuts[-1])
    until = history.cut_id(cut)
    words = cut_note(conversation, until=until, chars_max=words_chars, can_recall=can_recall)
    conversation.trim(until, removed_messages=removed[cut], note=words)
    return removed[cut]


def _is_summary(message: Message) -> bool:
    return isinstance(message, UserMessage) and is_summary(message.text)


# A cut changes nothing in the timeline: it is an entry that says where the history continues after
# the first user message (see `Conversation.trim` and `Conversation.compact`).
@dataclass(frozen=True, slots=True)
class HistorySlice:
    """A user message, or a reply with its results.

    `cut_id` is the entry at which the history can continue after a cut; None for a message that is
    only a stand-in, before which no cut is possible.
    """

    cut_id: str | None
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class RequestHistory:
    """The history of the next request: a cut keeps `first`, a trim also `summary`.

    `summary` is the message in place of what earlier cuts left out.
    """

    first: tuple[Message, ...] = ()
    summary: tuple[Message, ...] = ()
    rounds: tuple[HistorySlice, ...] = ()

    def cuts(self) -> list[int]:
        """Return the indexes in `rounds` before which a cut is possible, oldest first."""
        return [i for i, each in enumerate(self.rounds) if i and each.cut_id is not None]

    def before(self, index: int) -> list[Message]:
        """Return the messages that a cut before round *index* leaves out, without the summary."""
        return [message for each in self.rounds[:index] for message in each.messages]

    def cut_id(self, index: int) -> str:
        """Return the entry id for a cut before round *index*, one of `cuts()`."""
        found = self.rounds[index].cut_id
        assert found is not None
        return found

    def tail(self, count: int) -> int:
        """Return the latest cut that keeps the last *count* messages; 0 if there is none."""
        kept = 0
        for index in reversed(range(1, len(self.rounds))):
            kept += len(self.rounds[index].messages)
            if kept >= count and self.rounds[index].cut_id is not None:
                return index
        return 0


def history_of(conversation: Conversation) -> RequestHistory:
    """Return the history of *conversation* as the next request would show it."""
    recorded = list(entries(conversation.prompts))
    summaries = {e.id for e in recorded if isinstance(e, CompactionOutput | TrimOutput)}
    real = {entry.id for entry in recorded} - summaries
    parts = list(_parts(shown(conversation.prompts)))
    found = [HistorySlice(e[0].id if e[0].id in real else None, tuple(messages(e))) for e in parts]
    if not found:
        return RequestHistory()
    summarised = len(parts) > 1 and parts[1][0].id in summaries
    head = 2 if summarised else 1
    summary = found[1].messages if summarised else ()
    return RequestHistory(found[0].messages, summary, tuple(found[head:]))


def _parts(outputs: Sequence[Output]) -> Iterator[list[Output]]:
    """Yield the entries of each unit; the entries of a reply end with its mark."""
    reply: list[Output] = []
    for output in outputs:
        match output:
            case UserOutput():
                yield [output]
            case BlockOutput():
                reply.append(output)
            case ReplyOutput():
                yield [*reply, output]
                reply = []
            case _:
                pass
