"""State the effort in messages, so that a change leaves what is cached as it is; pure.

The effort beside the messages is part of each cached prompt. One in a message of the system's holds
from the user's turn before it until the next one; the request itself then names none.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from agent_cli.contracts.messages import LlmMessage, UserMessage
from agent_cli.contracts.provider import Model, ThinkingLevel
from agent_cli.contracts.timeline import Block, Json
from agent_cli.providers.anthropic.thinking import EFFORTS

_MARK: Final = "effort"


def states_effort(messages: Sequence[LlmMessage]) -> bool:
    """Return whether *messages* say at which effort they were answered."""
    return any(isinstance(each, UserMessage) and each.effort is not None for each in messages)


def with_effort_marks(
    messages: Sequence[LlmMessage], *, model: Model, level: ThinkingLevel | None
) -> tuple[LlmMessage, ...]:
    """Return *messages* with a mark where the effort changes; `with_effort_messages` uses them.

    A new message at the end is answered at *level*, also if it says otherwise.
    """
    effort, found = "", list(messages)
    for at, message in enumerate(messages):
        if not isinstance(message, UserMessage):
            continue
        asked = (level or "") if at == len(found) - 1 else message.effort
        wanted = effort if asked in (None, "off") else _effort(asked, model, before=effort)
        if wanted != effort:
            mark: Block = {"type": _MARK, "effort": wanted}
            found[at] = replace(message, content=(*message.content, mark))
            effort = wanted
    return tuple(found)


def with_effort_messages(messages: Sequence[Block]) -> list[Block]:
    """Return *messages* of the API with a message of the system's for the marks of each."""
    return list(_placed(messages))


def _placed(messages: Sequence[Block]) -> Iterator[Block]:
    config: Json = None
    for message in messages:
        if message["role"] == "system":
            # Two messages of the system's in a row are refused.
            yield message if config is None else {**message, "output_config": config}
            config = None
            continue
        if config is not None:
            yield {"role": "system", "content": [], "output_config": config}
            config = None
        content = message["content"]
        assert isinstance(content, list)
        kept: list[Json] = []
        for block in content:
            match block:
                case {"type": "effort", "effort": level}:
                    config = {"effort": level}
                case _:
                    kept.append(block)
        yield message if config is None else {**message, "content": kept}
    if config is not None:
        yield {"role": "system", "content": [], "output_config": config}


def _effort(level: str, model: Model, *, before: str) -> str:
    """Return the API's word for *level*; the model's default only where something changes to it."""
    if level == "":
        return model.default_effort if before else ""
    effort = next((word for name, word in EFFORTS.items() if name == level), "")
    return effort if effort in model.efforts else before
