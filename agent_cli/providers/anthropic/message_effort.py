"""State the effort in messages, so that a change leaves what is cached as it is; pure.

The effort beside the messages is part of each cached prompt. One in a message of the system's holds
from the user's turn before it until the next one; the request itself then names none.
"""

from collections.abc import Sequence
from dataclasses import replace

from agent_cli.contracts.messages import LlmMessage, UserMessage
from agent_cli.contracts.provider import Model, ThinkingLevel
from agent_cli.contracts.timeline import Block
from agent_cli.providers.anthropic.system_messages import EFFORT_MARK
from agent_cli.providers.anthropic.thinking import EFFORTS


def states_effort(messages: Sequence[LlmMessage]) -> bool:
    """Return whether *messages* say at which effort they were answered."""
    return any(isinstance(each, UserMessage) and each.effort is not None for each in messages)


def with_effort_marks(
    messages: Sequence[LlmMessage], *, model: Model, level: ThinkingLevel | None
) -> tuple[LlmMessage, ...]:
    """Return *messages* with a mark where the effort changes; see `system_messages`.

    A new message at the end is answered at *level*, also if it says otherwise.
    """
    effort, found = "", list(messages)
    for at, message in enumerate(messages):
        if not isinstance(message, UserMessage):
            continue
        asked = (level or "") if at == len(found) - 1 else message.effort
        wanted = effort if asked in (None, "off") else _effort(asked, model, before=effort)
        if wanted != effort:
            mark: Block = {"type": EFFORT_MARK, "effort": wanted}
            found[at] = replace(message, content=(*message.content, mark))
            effort = wanted
    return tuple(found)


def _effort(level: str, model: Model, *, before: str) -> str:
    """Return the API's word for *level*; the model's default only where something changes to it."""
    if level == "":
        return model.default_effort if before else ""
    effort = next((word for name, word in EFFORTS.items() if name == level), "")
    return effort if effort in model.efforts else before
