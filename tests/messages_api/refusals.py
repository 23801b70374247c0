"""The form of a refusal, and the parts that the rules share."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from tests.messages_api.prompt_cache import blocks_of
from tests.messages_api.script import Payload


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason a request is not answered; `rule` is for assertions."""

    rule: str
    status: int
    kind: str
    message: str
    code: str | None = None


Refusals: TypeAlias = Iterator[Refusal]


def bad(rule: str, message: str) -> Refusal:
    """Return an invalid_request_error."""
    return Refusal(rule, 400, "invalid_request_error", message)


def is_older(model: str) -> bool:
    """Return whether *model* is of the 4.5 generation: no adaptive thinking, prefill allowed."""
    return re.search(r"-4-5(-\d{8})?$", model) is not None


def binds_thinking(model: str) -> bool:
    """Return whether *model* binds thinking blocks to the prefix they were made in."""
    return (
        re.match(r"claude-(fable|mythos)-5-[12]|claude-(opus|sonnet|haiku)-5-5", model) is not None
    )


def merged_messages(messages: list[Payload]) -> list[Payload]:
    """Return *messages* with neighbours of one role combined, as the API does (R2)."""
    merged: list[Payload] = []
    for message in messages:
        blocks = blocks_of(message)
        if merged and merged[-1]["role"] == message["role"]:
            merged[-1]["content"] = [*merged[-1]["content"], *blocks]
        else:
            merged.append({"role": message["role"], "content": blocks})
    return merged
