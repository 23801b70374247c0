"""Record messages that were typed during a run and not delivered yet.

Each change is an entry with all undelivered messages, so that a kill of the program loses none.
"""

from collections.abc import Sequence
from typing import Final

from agent_cli.contracts.messages import CustomMessage, typed_in
from agent_cli.contracts.timeline import CustomOutput, UserOutput
from agent_cli.core.conversation import Conversation
from agent_cli.core.projection import entries, noted

UNSENT: Final = "unsent"


def keep_unsent(conversation: Conversation, texts: Sequence[str]) -> None:
    """Record that *texts* wait to be delivered, and no others."""
    if conversation.prompts and list(texts) != _recorded(conversation):
        conversation.note(CustomMessage(UNSENT, {"texts": list(texts)}))


def unsent(conversation: Conversation) -> list[str]:
    """Return the messages that waited when the program ended, in order."""
    texts = _recorded(conversation)
    for output in reversed([*entries(conversation.prompts)] if texts else []):
        if isinstance(output, CustomOutput) and output.name == UNSENT:
            break
        # Delivered, and the program ended before the entry that says so.
        if isinstance(output, UserOutput) and typed_in(output.content) in texts:
            texts.remove(typed_in(output.content))
    return texts


def _recorded(conversation: Conversation) -> list[str]:
    prompts = reversed(conversation.prompts)  # the last one counts, and is near the end
    newest_first = (output for prompt in prompts for output in reversed(prompt.output))
    data = next(noted(newest_first, UNSENT), None)
    texts = data.get("texts") if isinstance(data, dict) else None
    return [str(text) for text in texts] if isinstance(texts, list) else []
