"""Ask for signed summaries, and send them back as they came; pure.

The API summarises what the request holds, reads it from the cache as any request does, and returns
one signed block, which then stands first in place of what it covers. Elsewhere, and for another
model, the summary is the text that the block holds.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from agent_cli.contracts.messages import AssistantMessage, LlmMessage, UserMessage
from agent_cli.contracts.provider import ModelRequest
from agent_cli.contracts.timeline import Json, text_block

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
