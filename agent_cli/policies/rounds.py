"""Split the history into the units that a cut can leave out; a call stays with its result.

A cut changes nothing in the timeline: it is an entry that says where the history continues after
the first user message (see `Conversation.trim` and `Conversation.compact`).
"""

from collections.abc import Iterator, Sequence

from agent_cli.contracts.messages import Message
from agent_cli.contracts.timeline import (
    BlockOutput,
    CompactionOutput,
    Output,
    ReplyOutput,
    UserOutput,
)
from agent_cli.core.conversation import Conversation
from agent_cli.core.projection import entries, messages, shown
from agent_cli.system.records import dataclass


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
    """The history of the next request: a cut keeps `first`, a trim also `summary`."""

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
    summaries = {entry.id for entry in recorded if isinstance(entry, CompactionOutput)}
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
