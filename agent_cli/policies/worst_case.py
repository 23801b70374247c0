"""The worst-case cost of a model call: an upper bound of its prompt, and the longest reply.

A token stands for at least one byte, so the bytes of a prompt are an upper bound of its tokens. If
the API has counted the same prefix before, only the rest is bounded by its bytes. Cached tokens
cost less to read and more to write, and any call may have to write all of them.

A reply that broke off has no more tokens than the model can have generated in the time it had.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from agent_cli.contracts.messages import CustomMessage, LlmMessage, Message
from agent_cli.contracts.provider import Model, ModelRequest
from agent_cli.contracts.timeline import Usage
from agent_cli.system.shapes import is_object

# Tokens the server adds: the instructions for calling tools, marks around messages.
OVERHEAD_TOKENS: Final = 1_000
# The newest models count up to 4,784 tokens for an image; larger images are scaled down.
IMAGE_TOKENS_MAX: Final = 5_000
# `count_tokens` is an estimate: "the actual number may differ by a small amount".
COUNT_MARGIN: Final = 0.05
COUNT_MARGIN_TOKENS: Final = 100
# Text of more bytes a token is rare; a lower count is one of another tokenizer, or of nothing.
COUNTED_BYTES_MAX: Final = 8
# A server notices within this time that nobody reads its reply any more, and generates no more.
NOTICED_WITHIN_S: Final = 5.0


class PromptBound:
    """Upper bounds of a conversation's prompts, based on the API's count of the previous one."""

    def __init__(self) -> None:
        self._counted: tuple[ModelRequest, int] | None = None

    def note(self, request: ModelRequest, tokens: int) -> None:
        """Remember that the API counted *tokens* in the prompt of *request*."""
        self._counted = (request, tokens) if tokens else None

    def note_estimate(self, request: ModelRequest, tokens: int) -> None:
        """Remember that the API estimates *tokens* for the prompt of *request*."""
        self.note(request, math.ceil(tokens * (1 + COUNT_MARGIN)) + COUNT_MARGIN_TOKENS)

    def usage(self, request: ModelRequest) -> Usage:
        """Return the most expensive usage *request* can have, without a reply."""
        fixed, added = _fixed_bytes(request), request.messages
        tokens = fixed + OVERHEAD_TOKENS
        if self._counted and _begins_with(request, self._counted[0]):
            counted, tokens = self._counted
            added = request.messages[len(counted.messages) :]
        tokens += _tokens_at_most(added)
        # Tools and system are cached for an hour, the rest for five minutes.
        for_an_hour = min(fixed, tokens)
        return Usage(cache_write_1h_tokens=for_an_hour, cache_write_5m_tokens=tokens - for_an_hour)


def most_tokens(price: Callable[[int], int], affordable: int, limit: int) -> int:
    """Return the longest reply, up to *limit* tokens, whose call costs at most *affordable*.

    Args:
        price: Returns the call's cost for a number of reply tokens; must be increasing.
    """
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if price(middle) <= affordable else (low, middle - 1)
    return low


def generated_at_most(model: Model, elapsed_s: float) -> int:
    """Return the tokens *model* can have generated when its reply breaks off after *elapsed_s*."""
    if not model.output_tokens_per_s:
        return model.max_output_tokens
    return math.ceil(model.output_tokens_per_s * (max(0.0, elapsed_s) + NOTICED_WITHIN_S))


def is_credible(tokens: int, prompt: Usage) -> bool:
    """Return whether *tokens* can be a count of the prompt whose bytes bound it to *prompt*."""
    return tokens * COUNTED_BYTES_MAX >= prompt.prompt_tokens - OVERHEAD_TOKENS


def with_reply(prompt: Usage, tokens: int) -> Usage:
    """Return the usage of a call whose reply has *tokens*."""
    return replace(prompt, output_tokens=tokens)


def _begins_with(request: ModelRequest, earlier: ModelRequest) -> bool:
    """Return whether *request* is *earlier* with messages added."""
    return (
        request.model.id == earlier.model.id
        and request.system == earlier.system
        and request.tools == earlier.tools
        and request.messages[: len(earlier.messages)] == earlier.messages
    )


def _fixed_bytes(request: ModelRequest) -> int:
    tools = [[tool.name, tool.description, tool.input_schema] for tool in request.tools]
    return sum(map(_bytes, (*request.system, *tools)))


def _tokens_at_most(messages: Sequence[Message | LlmMessage]) -> int:
    contents = [each.content for each in messages if not isinstance(each, CustomMessage)]
    blocks = [block for content in contents for block in content]
    return sum(map(_block_tokens, blocks))


def _block_tokens(block: object) -> int:
    return IMAGE_TOKENS_MAX if _is_image(block) else _bytes(block)


def _is_image(block: object) -> bool:
    return is_object(block) and block.get("type") == "image"


def _bytes(value: object) -> int:
    written = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return len(written.encode("utf-8", "surrogatepass"))
