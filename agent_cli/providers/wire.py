"""Translate a request into the parameters of the Messages API; pure.

All fields are in a fixed order, so that an appended turn changes no earlier byte: prompt caches and
signed thinking depend on it.
"""

from collections.abc import Sequence

from agent_cli.contracts.provider import ModelRequest
from agent_cli.contracts.timeline import Block, Json
from agent_cli.core.api_messages import to_api
from agent_cli.providers.thinking import BINDING_BETA, thinking_parameters

HOUR: Json = {"type": "ephemeral", "ttl": "1h"}
FIVE_MINUTES: Json = {"type": "ephemeral"}


def parameters(request: ModelRequest, *, compat: bool) -> dict[str, Json]:
    """Return the arguments of `client.beta.messages.create` for *request*, except `stream`.

    Args:
        compat: For servers with only the core of the API: no betas, no cache markers, no metadata,
            and thinking only if a level is requested.

    Raises:
        ModelError: The model does not support the request.
    """
    messages = to_api(request.messages)
    thinking = thinking_parameters(request, compat=compat)
    sent: dict[str, Json] = {
        "model": request.model.id,
        "max_tokens": min(request.max_tokens, request.model.max_output_tokens),
        "messages": [*messages] if compat else [*_with_marker(messages)],
        **_fixed_part(request, marked=not compat),
        **thinking,
    }
    if not compat:
        sent["cache_control"] = FIVE_MINUTES
        if _binds(thinking):
            sent["betas"] = [BINDING_BETA]
        if request.session_id is not None:
            sent["metadata"] = {"user_id": request.session_id}
    if request.temperature is not None:
        # The SDK dropped this parameter, but some servers still support it.
        sent["extra_body"] = {"temperature": request.temperature}
    return sent


def _fixed_part(request: ModelRequest, *, marked: bool) -> dict[str, Json]:
    """Return tools and system, with a one-hour cache marker behind the fixed part."""
    system: list[Block] = [{"type": "text", "text": part} for part in request.system if part]
    tools: list[Block] = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
        for tool in request.tools
    ]
    if marked and system:
        system[0] = {**system[0], "cache_control": HOUR}
    elif marked and tools:
        tools[-1] = {**tools[-1], "cache_control": HOUR}
    fixed: dict[str, Json] = {}
    if system:
        fixed["system"] = [*system]
    if tools:
        fixed["tools"] = [*tools]
    return fixed


def _with_marker(messages: Sequence[Block]) -> list[Block]:
    """Add a cache marker where the previous request ended.

    The automatic marker finds cached content only within 20 blocks; a reply with its results can be
    longer, and then the whole history would be paid for again.
    """
    replies = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
    if not replies or replies[-1] == 0:
        return list(messages)
    previous = replies[-1] - 1
    content = messages[previous]["content"]
    assert isinstance(content, list)
    last = content[-1]
    assert isinstance(last, dict)
    marked: Json = {**last, "cache_control": FIVE_MINUTES}
    end: Block = {**messages[previous], "content": [*content[:-1], marked]}
    return [*messages[:previous], end, *messages[previous + 1 :]]


def _binds(thinking: dict[str, Json]) -> bool:
    chosen = thinking.get("thinking")
    return isinstance(chosen, dict) and "block_binding" in chosen
