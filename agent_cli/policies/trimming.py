"""Limit the number of messages by leaving out the oldest rounds, without a summary."""

from itertools import accumulate

from agent_cli.contracts.events import Notice
from agent_cli.contracts.wording import counted
from agent_cli.core.conversation import Conversation
from agent_cli.core.turn import Turn
from agent_cli.policies.rounds import history_of


class Trimming:
    """A `prepare` contributor; `max_messages` 0 is no limit."""

    def __init__(self, *, max_messages: int) -> None:
        self._max_messages = max_messages

    def __call__(self, turn: Turn) -> None:
        """Trim before the model is asked; a warning says how many messages were dropped."""
        if turn.conversation.open_calls():
            return  # this turn only runs these calls; the model is not asked
        removed = trim_history(turn.conversation, max_messages=self._max_messages)
        if removed:
            turn.emit(
                Notice(
                    "warning",
                    f"dropped the oldest {counted(removed, 'message')}: the conversation exceeded"
                    f" max_conversation_messages = {self._max_messages}",
                )
            )


def trim_history(conversation: Conversation, *, max_messages: int) -> int:
    """Leave out the oldest rounds after the first user message if there are too many messages.

    It trims to three quarters of the limit: each cut invalidates the prompt cache, so one cut has
    to serve many turns. A round is never split, so the last one may exceed the limit; a summary
    stays.

    Args:
        max_messages: 0 is no limit.

    Returns:
        The number of messages left out.
    """
    if not max_messages:
        return 0  # checked first, because a limit is rarely set
    history = history_of(conversation)
    removed = [0, *accumulate(len(each.messages) for each in history.rounds)]
    length = len(history.first) + len(history.summary) + removed[-1]
    cuts = history.cuts()
    if not cuts or length <= max_messages:
        return 0
    targets = (max_messages - max_messages // 4, max_messages)
    reached = (i for target in targets for i in cuts if length - removed[i] <= target)
    cut = next(reached, cuts[-1])
    conversation.trim(history.cut_id(cut), removed_messages=removed[cut])
    return removed[cut]
