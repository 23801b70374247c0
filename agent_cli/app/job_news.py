"""Tell the model, once, that a background command has ended."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from agent_cli.contracts.errors import ConversationError
from agent_cli.contracts.messages import UserMessage
from agent_cli.core.conversation import Conversation
from agent_cli.core.turn import Turn

TakeNews: TypeAlias = Callable[[Callable[[str], bool]], Sequence[str]]


class JobNews:
    """A `prepare` contributor and a source of follow-ups."""

    def __init__(self, take: TakeNews, conversation: Callable[[], Conversation]) -> None:
        """Tell nothing yet.

        Args:
            take: Returns the news about jobs whose call's id its argument knows, each once.
            conversation: Returns the one that goes on.
        """
        self._take = take
        self._conversation = conversation

    def __call__(self, turn: Turn) -> None:
        """Tell what ended since the last request."""
        if not turn.conversation.open_calls():
            for text in self._news(turn.conversation):
                turn.tell_model(text)

    def follow_ups(self) -> Sequence[UserMessage]:
        """Return what ended while the last reply was made."""
        return [UserMessage.of(text) for text in self._news(self._conversation())]

    def _news(self, conversation: Conversation) -> Sequence[str]:
        def is_known(tool_call_id: str) -> bool:
            try:
                conversation.call(tool_call_id)
            except ConversationError:  # of another conversation, or gone back from
                return False
            return True

        return self._take(is_known)
