"""Texts that the user pinned: they hold for the whole session, whatever is summarised or trimmed.

A pin is an entry of the record, so a rewind takes it back and a fork copies it. A message tells the
model of the pin, and another one does when a cut of the history has removed that message.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.messages import CustomMessage
from agent_cli.contracts.timeline import Prompt
from agent_cli.core.conversation import Conversation
from agent_cli.core.projection import entries, noted

_PIN: Final = "pin"
_UNPIN: Final = "unpin"
PINNED_MARK: Final = "[Pinned by the user, for the whole session: "
UNPINNED_MARK: Final = "[No longer pinned by the user: "


def pins(prompts: Iterable[Prompt]) -> Mapping[int, str]:
    """Return the pinned texts by their numbers, which stay the same for the session."""
    found = _all(prompts)
    gone = _unpinned(prompts)
    return {number: text for number, text in found.items() if number not in gone}


def unpinned(prompts: Iterable[Prompt]) -> list[str]:
    """Return the texts that were pinned once and are no longer."""
    held = set(pins(prompts).values())
    return [text for text in _all(prompts).values() if text not in held]


def pin(conversation: Conversation, text: str) -> int:
    """Pin *text*; return its number."""
    conversation.note(CustomMessage(_PIN, {"text": text}))
    return len(_all(conversation.prompts))


def unpin(conversation: Conversation, number: int) -> str:
    """Take the pin *number* back; return its text.

    Raises:
        UsageError: There is no such pin.
    """
    text = pins(conversation.prompts).get(number)
    if text is None:
        raise UsageError(f"there is no pin {number}; /pin lists them")
    conversation.note(CustomMessage(_UNPIN, {"number": number}))
    return text


def as_pinned(text: str) -> str:
    """Return the message that tells the model of a pin."""
    return f"{PINNED_MARK}{text}]"


def as_unpinned(text: str) -> str:
    """Return the message that tells the model that a pin is gone."""
    return f"{UNPINNED_MARK}{text}]"


def _all(prompts: Iterable[Prompt]) -> dict[int, str]:
    notes = noted(entries(prompts), _PIN)
    texts = (str(note["text"]) for note in notes if isinstance(note, dict) and "text" in note)
    return dict(enumerate(texts, start=1))


def _unpinned(prompts: Iterable[Prompt]) -> set[int]:
    notes = noted(entries(prompts), _UNPIN)
    return {int(str(note["number"])) for note in notes if isinstance(note, dict)}
