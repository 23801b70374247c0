"""Texts that the user pinned: they hold for the whole session, whatever is summarised or trimmed.

A pin is an entry of the record, so a rewind takes it back and a fork copies it. A message tells the
model of the pin, and another one does when a cut of the history has removed that message.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.messages import CustomMessage
from agent_cli.contracts.timeline import CustomOutput
from agent_cli.core.conversation import Conversation

_PIN: Final = "pin"
_UNPIN: Final = "unpin"
PINNED_MARK: Final = "[Pinned by the user, for the whole session: "
UNPINNED_MARK: Final = "[No longer pinned by the user: "


def pins(conversation: Conversation) -> Mapping[int, str]:
    """Return the pinned texts by their numbers, which stay the same for the session."""
    return pins_and_former(conversation)[0]


def pins_and_former(conversation: Conversation) -> tuple[Mapping[int, str], Sequence[str]]:
    """Return the pinned texts by their numbers, and the texts that are pinned no longer."""
    texts, gone = _recorded(conversation)
    held = {number: text for number, text in enumerate(texts, start=1) if number not in gone}
    return held, [text for text in texts if text not in held.values()]


def pin(conversation: Conversation, text: str) -> int:
    """Pin *text*; return its number."""
    conversation.note(CustomMessage(_PIN, {"text": text}))
    return len(_recorded(conversation)[0])


def unpin(conversation: Conversation, number: int) -> str:
    """Take the pin *number* back; return its text.

    Raises:
        UsageError: There is no such pin.
    """
    text = pins(conversation).get(number)
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


def _recorded(conversation: Conversation) -> tuple[Sequence[str], set[int]]:
    """Return the text of each pin, and the numbers of those taken back."""
    texts, gone = list[str](), set[int]()
    for output in conversation.between_replies:
        if not isinstance(output, CustomOutput):
            continue
        match output.data:
            case {"text": text} if output.name == _PIN:
                texts.append(str(text))
            case {"number": number} if output.name == _UNPIN:
                gone.add(int(str(number)))
            case _:
                pass
    return texts, gone
