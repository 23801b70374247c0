"""Attribute names shared by several kinds of spans, and clean values for them."""

from asyncio import CancelledError
from typing import Final

from agent_cli.contracts.errors import ModelError

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
MODEL: Final = "gen_ai.request.model"
CONVERSATION: Final = "gen_ai.conversation.id"
TOOL: Final = "gen_ai.tool.name"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS: Final = "gen_ai.usage.cache_creation.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
ERROR: Final = "error.type"
CANCELLED: Final = "cancelled"
_NAME_CHARS_MAX: Final = 256


def plain(name: str) -> str:
    """Return *name* shortened and valid as UTF-8: models may send any text as a name."""
    return name[:_NAME_CHARS_MAX].encode(errors="replace").decode()


def error_type(error: BaseException) -> str:
    """Return the kind of *error*; its message may hold content, and is not sent."""
    if isinstance(error, CancelledError | GeneratorExit):
        return CANCELLED
    if isinstance(error, ModelError) and (error.kind or error.status):
        return plain(error.kind or str(error.status))
    return type(error).__name__
