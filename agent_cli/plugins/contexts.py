"""Send the context of plugins without losing the prompt cache.

The context that a conversation begins with stands in the system prompt, always as it was then. A
notice behind what is cached tells of each change, and is repeated once a summary has removed it.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from agent_cli.contracts.authors import NOTICE
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.timeline import UserOutput
from agent_cli.core.conversation import Conversation
from agent_cli.core.projection import entries, has_reply
from agent_cli.core.turn import Turn

_AUTHOR: Final = f"{NOTICE}: context of plugin "

Contexts = Mapping[str, Sequence[str]]
"""Plugin → the texts of its context."""


class PluginContexts:
    """The contexts that conversations began with, and the changes that their models are told."""

    def __init__(self) -> None:
        self._begun: dict[str, Contexts] = {}
        self._last: Contexts | None = None

    def send(self, turn: Turn, contexts: Contexts) -> None:
        """Add to *turn* the context it began with, and tell its model of changes to *contexts*."""
        begun = self._begun_with(turn.conversation, contexts)
        turn.system += [text for texts in begun.values() for text in texts]
        if turn.conversation.open_calls():
            return
        sent = _sent(turn.conversation)
        for name, texts in contexts.items():  # one that failed is not among them
            change = _change(name, texts)
            is_begun = [*begun.get(name, ())] == [*texts]
            if sent[name] != change if name in sent else not is_begun:
                turn.tell_model(change, author=f"{_AUTHOR}{name}")

    def _begun_with(self, conversation: Conversation, contexts: Contexts) -> Contexts:
        """Return what *conversation* began with; a copy began with that of its original."""
        if conversation.id not in self._begun:
            replied = has_reply(conversation.prompts)
            self._begun[conversation.id] = (self._last if replied else None) or dict(contexts)
        self._last = self._begun[conversation.id]
        return self._last


def _change(name: str, texts: Sequence[str]) -> str:
    if not texts:
        return f"[agent-cli: what plugin {name} said before holds no longer.]"
    heading = f"[agent-cli: plugin {name} says from now on, in place of what it said before:]"
    return "\n\n".join([heading, *texts])


def _sent(conversation: Conversation) -> dict[str, str]:
    """Return the last change of each plugin's context that the model still sees.

    Most conversations have none, and are not projected for this.
    """
    messages = (out for out in entries(conversation.prompts) if isinstance(out, UserOutput))
    if not any(out.author.startswith(_AUTHOR) for out in messages):
        return {}
    return {
        message.author.removeprefix(_AUTHOR): message.text
        for message in conversation.context()
        if isinstance(message, UserMessage) and message.author.startswith(_AUTHOR)
    }
