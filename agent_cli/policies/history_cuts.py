"""Cut the history: its units, the limit that drops the oldest, and the user's words that stay."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Final

from agent_cli.contracts.events import Notice
from agent_cli.contracts.messages import Message, UserMessage, typed_in
from agent_cli.contracts.options import USER_WORDS_CHARS
from agent_cli.contracts.timeline import (
    Block,
    BlockOutput,
    CompactionOutput,
    Error,
    Output,
    ReplyOutput,
    Success,
    ToolOutput,
    TrimOutput,
    UserOutput,
    text_block,
    text_of,
)
from agent_cli.contracts.wording import counted
from agent_cli.core.conversation import Conversation
from agent_cli.core.lasting_tools import tell_again
from agent_cli.core.pins import as_pinned, pins
from agent_cli.core.projection import (
    CUT_TEXT,
    WORDS_TEXT,
    entries,
    is_summary,
    messages,
    numbered,
    unsent_ids,
)
from agent_cli.core.turn import Turn
from agent_cli.policies.estimate import CHARS_PER_TOKEN
from agent_cli.system.records import dataclass

# The user's words fill at most this share of the window.
WORDS_SHARE: Final = 0.1

# Tools whose results are answers of the user.
_ANSWERED: Final = ("ask_user", "present_plan")

# Tools whose calls a summary may refer to by their numbers.
_CHANGING: Final = ("edit", "write", "bash")
_TARGET_CHARS: Final = 60
_LISTED_MAX: Final = 100

# Characters kept of one long text (a paste, a log), three quarters of them of its beginning; and
# the least that remains of it where the budget is small.
_LONGEST: Final = 4_000
_SHORTENED_MIN: Final = 400

# What stands between a summary, or the note of a cut, and the user's words.
_BEFORE_WORDS: Final = f"\n\n{WORDS_TEXT}\n"


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
        before = turn.conversation.context() if self._max_messages else ()
        window_chars = turn.model.context_window * CHARS_PER_TOKEN
        removed = trim_history(
            turn.conversation,
            max_messages=self._max_messages,
            words_chars=min(self._words_chars, int(WORDS_SHARE * window_chars)),
            can_recall=self._can_recall,
        )
        if removed:
            tell_again(turn, before)
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
    parts = list(_parts(conversation.shown()))
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


def user_words(
    conversation: Conversation, *, until: str, chars_max: int, can_recall: bool = True
) -> str:
    """Return what the user said before the entry *until*, oldest first, one item each.

    That is every message but the first, which is always sent; every answer to a question; and
    every refusal of a call with its reason. The newest stay if all of it has more than *chars_max*
    characters; pinned texts stay whole in any case. *can_recall*: the model has the tool `recall`.
    """
    kept: list[str] = []
    # One paste must not push out all other words where there is little room.
    longest = max(_SHORTENED_MIN, min(_LONGEST, chars_max // 2))
    items = list(_items(conversation, until, longest, can_recall=can_recall))
    room = chars_max
    for text in reversed(items):
        room -= len(text)
        if room < 0:
            break
        kept.append(text)
    if chars_max and (left_out := len(items) - len(kept)):
        kept.append(f"[older ones left out here: {left_out}{_finds(can_recall=can_recall)}]")
    return "\n".join([*_pinned(conversation), *reversed(kept)])


def kept_chars(conversation: Conversation, summary: Sequence[Message]) -> int:
    """Return how many characters of the user's words the message *summary* has, without pins."""
    text = "".join(
        message.text.partition(_BEFORE_WORDS)[2]
        for message in summary
        if isinstance(message, UserMessage)
    )
    return len(text) - sum(len(each) for each in _pinned(conversation) if each in text)


def _pinned(conversation: Conversation) -> list[str]:
    return [f"- {as_pinned(text)}" for text in pins(conversation).values()]


def cut_note(conversation: Conversation, *, until: str, chars_max: int, can_recall: bool) -> str:
    """Return what the model reads in place of all before the entry *until*: the user's words.

    For a cut without a summary; the arguments are those of `user_words`.
    """
    words = user_words(conversation, until=until, chars_max=chars_max, can_recall=can_recall)
    return f"{CUT_TEXT}{_finds(can_recall=can_recall)}.]" + (
        f"{_BEFORE_WORDS}{words}" if words else ""
    )


def _finds(*, can_recall: bool) -> str:
    return "; recall finds them" if can_recall else ""


def changing_entries(conversation: Conversation, *, until: str) -> str:
    """Return the calls before the entry *until* that may have changed something, a line each.

    Each has its number, for notes that refer to it. The newest stay if there are many.
    """
    lines: list[str] = []
    for number, output in numbered(conversation.prompts):
        if output.id == until:
            break
        if isinstance(output, ToolOutput) and output.name in _CHANGING:
            arguments = output.input if isinstance(output.input, dict) else {}
            target = str(arguments.get("path") or arguments.get("command") or "")
            lines.append(f"[{number}] {output.name} {' '.join(target.split())[:_TARGET_CHARS]}")
    return "\n".join(lines[-_LISTED_MAX:])


def without_words(summary: Sequence[Message]) -> Iterator[Message]:
    """Yield the message of an earlier *summary* or cut without the user's words behind it."""
    for message in summary:
        if isinstance(message, UserMessage):
            text = message.text.partition(_BEFORE_WORDS)[0]
            yield replace(message, content=(text_block(text),))


def _items(
    conversation: Conversation, until: str, longest: int, *, can_recall: bool
) -> Iterator[str]:
    unsent = unsent_ids(conversation.prompts)
    is_first = True
    for number, output in numbered(conversation.prompts):
        if output.id == until:
            return
        if output.id in unsent:
            continue
        if is_first and isinstance(output, UserOutput):
            is_first = False
        elif text := _user_text(output):
            where = f"; recall entry {number} for the whole" if can_recall else ""
            yield f"- [{number}] {_shortened(text, longest, where)}"


def _user_text(output: Output) -> str:
    match output:
        case UserOutput():
            return typed_in(output.content).strip() if output.is_typed else ""
        case ToolOutput(result=Success(content)) if output.name in _ANSWERED:
            return f"(answer) {_text(content)}"
        case ToolOutput(decision="rejected", result=Success(content) | Error(content)):
            return f"(refused {output.name}) {_text(content)}"
        case _:
            return ""


def _text(content: tuple[Block, ...]) -> str:
    return text_of(content).strip()


def _shortened(text: str, longest: int, where: str) -> str:
    tail = longest // 4
    head = longest - tail
    left_out = len(text) - longest
    if left_out <= 0:
        return text
    note = f"[… {left_out:,} characters{where} …]"
    return f"{text[:head]} {note} {text[len(text) - tail :]}"
