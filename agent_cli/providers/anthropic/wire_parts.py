"""Parts of a request that `wire` assembles: system messages and signed summaries; pure.

Until a system message is placed, a mark in the user's messages stands for it: neighbours of one
role become one message first. The API takes a system message only behind the whole of a user's
turn, and no two in a row. There it stays, so that a later message changes nothing that is cached.

An effort beside the messages would be part of each cached prompt. One in such a message holds from
the user's turn before it until the next one; the request itself then names none.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from agent_cli.contracts.messages import AssistantMessage, LlmMessage, UserMessage
from agent_cli.contracts.provider import Model, ModelRequest, ThinkingLevel
from agent_cli.contracts.timeline import Block, Json, text_block
from agent_cli.providers.anthropic.models import EFFORTS
from agent_cli.system.shapes import objects_in

EFFORT_MARK: Final = "effort"
_NOTICE_MARK: Final = "notice"
_MARKS: Final = (EFFORT_MARK, _NOTICE_MARK)


def with_notice_marks(messages: Sequence[LlmMessage]) -> tuple[LlmMessage, ...]:
    """Return *messages* with the texts of notices as marks; `with_system_messages` uses them."""
    return tuple(
        replace(each, content=tuple(map(_marked, each.content)))
        if isinstance(each, UserMessage) and each.is_notice
        else each
        for each in messages
    )


def messages_of(sent: Mapping[str, Json]) -> list[Block]:
    """Return the messages of a request, *sent* as its parameters."""
    return objects_in(sent["messages"])


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
        if not any(isinstance(block, dict) and block["type"] in _MARKS for block in content):
            return message
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
        return {**message, "content": kept}

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
    """Return *messages* with a mark where the effort changes; see `with_system_messages`.

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


# The API summarises what the request holds, reads it from the cache as any request does, and
# returns one signed block, which then stands first in place of what it covers. Elsewhere, and for
# another model, the summary is the text that the block holds.
INSTRUCTIONS_CHARS_MAX: Final = 16_384


def has_signed_summary(request: ModelRequest) -> bool:
    """Return whether the history of *request* begins with a summary that its model signed."""
    return any(_is_signed(each, request.model.id) for each in request.messages)


def without_instructions(request: ModelRequest) -> tuple[ModelRequest, Json]:
    """Return a request for a summary without its last message, and that as the API's parameter.

    Another request stays as it is, with None, and so does one whose instructions are too long.
    """
    if not (request.summarizes and 0 < len(_instructions(request)) <= INSTRUCTIONS_CHARS_MAX):
        return request, None
    parameter: Json = {"type": "summarize", "instructions": _instructions(request)}
    return replace(request, messages=request.messages[:-1]), parameter


def with_signed_summary(messages: Sequence[LlmMessage], *, model_id: str) -> tuple[LlmMessage, ...]:
    """Return *messages* with the summary that *model_id* signed first, in place of its text."""
    first: list[LlmMessage] = []
    rest: list[LlmMessage] = []
    for message in messages:
        if not isinstance(message, UserMessage) or not message.signed:
            rest.append(message)
        elif not _is_signed(message, model_id):
            rest.append(replace(message, signed=None))
        else:
            signed = message.signed
            first.append(AssistantMessage((signed.block,)))
            words = (text_block(signed.words),) if signed.words else ()
            rest.append(replace(message, content=words, signed=None))
    return (*first, *rest)


def _is_signed(message: LlmMessage, model_id: str) -> bool:
    return (
        isinstance(message, UserMessage)
        and message.signed is not None
        and message.signed.model == model_id
    )


def _instructions(request: ModelRequest) -> str:
    last = request.messages[-1] if request.messages else None
    return last.text if isinstance(last, UserMessage) else ""
