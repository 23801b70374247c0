"""Place messages of the system's role between the others: notices, and the effort; pure.

Until then marks in the user's messages hold their places: neighbours of one role become one message
first. The API takes such a message only behind the whole of a user's turn, and no two in a row. It
stays where it is from then on, so that what a later one says changes nothing that is cached.

An effort beside the messages would be part of each cached prompt. One in such a message holds from
the user's turn before it until the next one; the request itself then names none.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from agent_cli.contracts.messages import LlmMessage, UserMessage
from agent_cli.contracts.provider import Model, ThinkingLevel
from agent_cli.contracts.timeline import Block, Json, text_block
from agent_cli.providers.anthropic.thinking import EFFORTS

EFFORT_MARK: Final = "effort"
_NOTICE_MARK: Final = "notice"


def with_notice_marks(messages: Sequence[LlmMessage]) -> tuple[LlmMessage, ...]:
    """Return *messages* with the texts of notices as marks; `with_system_messages` uses them."""
    return tuple(
        replace(each, content=tuple(map(_marked, each.content)))
        if isinstance(each, UserMessage) and each.is_notice
        else each
        for each in messages
    )


def with_system_messages(messages: Sequence[Block]) -> list[Block]:
    """Return *messages* of the API with a message of the system's for the marks of each."""
    return list(_placed(messages))


def _placed(messages: Sequence[Block]) -> Iterator[Block]:
    waiting = _SystemMessage()
    for message in messages:
        if message["role"] == "system":  # it adds tools
            yield waiting.joined(message)
            waiting = _SystemMessage()
            continue
        yield from waiting.made()
        waiting = _SystemMessage()
        yield waiting.taken_from(message)
    yield from waiting.made()


class _SystemMessage:
    """The message that the marks of one message become."""

    def __init__(self) -> None:
        self._texts: list[Json] = []
        self._config: Json = None

    def taken_from(self, message: Block) -> Block:
        """Take the marks of *message*; return it without them."""
        content = message["content"]
        assert isinstance(content, list)
        kept: list[Json] = []
        for block in content:
            match block:
                case {"type": "effort", "effort": level}:
                    self._config = {"effort": level}
                case {"type": "notice", "text": str(text)} if kept:
                    self._texts.append(text_block(text))
                case {"type": "notice", "text": str(text)}:
                    kept.append(text_block(text))  # behind nothing of the user's
                case _:
                    kept.append(block)
        return message if kept == content else {**message, "content": kept}

    def joined(self, message: Block) -> Block:
        """Return *message* of the system's, with what was taken before it."""
        content = message["content"]
        assert isinstance(content, list)
        joined: Block = {**message, "content": [*self._texts, *content]}
        return joined if self._config is None else {**joined, "output_config": self._config}

    def made(self) -> Iterator[Block]:
        """Yield the message, if there is anything for it to say."""
        if self._texts or self._config is not None:
            yield self.joined({"role": "system", "content": []})


def _marked(block: Block) -> Block:
    return {**block, "type": _NOTICE_MARK} if block["type"] == "text" else block


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
