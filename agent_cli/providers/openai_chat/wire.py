"""Translate a request into the body of a chat completion; pure.

The history is kept in blocks of the Messages API. Here each becomes a message of its own kind:
tool results have the role `tool`, calls are a field beside the text, and thinking is left out, as
this API takes none back. It cannot load tools later either: `found_tools` has the way round.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Final

from agent_cli.contracts.hosted_blocks import own_tools
from agent_cli.contracts.media_files import without_document
from agent_cli.contracts.provider import ModelRequest
from agent_cli.contracts.timeline import Block, Json
from agent_cli.core.api_messages import to_api
from agent_cli.providers.found_tools import with_found
from agent_cli.providers.hosted_history import as_text

_EFFORTS: Final = ("minimal", "low", "medium", "high", "xhigh")
_NO_DOCUMENTS: Final = "this API takes no PDF"
_LEFT_OUT: Final = "[an image, which a tool's answer cannot hold in this API; it follows]"


def body(request: ModelRequest, *, is_openai: bool) -> dict[str, Json]:
    """Return the body for *request*; *is_openai* is False for servers that only copy the API."""
    messages, tools = with_found(
        to_api(as_text(request.messages)), own_tools(request.tools), by_reference=False
    )
    limit = "max_completion_tokens" if is_openai else "max_tokens"
    sent: dict[str, Json] = {
        "model": request.model.id,
        "messages": [*_messages(request.system, messages)],
        limit: min(request.max_tokens, request.model.max_output_tokens),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if tools:
        sent["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool["name"],
                    "description": tool["description"],
                    "parameters": tool["input_schema"],
                },
            }
            for tool in tools
        ]
    if request.thinking_level in _EFFORTS:
        sent["reasoning_effort"] = request.thinking_level
    if request.temperature is not None:
        sent["temperature"] = request.temperature
    return sent


def _messages(instructions: Sequence[str], messages: Sequence[Block]) -> Iterator[Json]:
    system = "\n\n".join(part for part in instructions if part.strip())
    if system:
        yield {"role": "system", "content": system}
    for message in messages:
        content = _blocks(message["content"])
        if message["role"] == "assistant":
            yield from _assistant(content)
        else:
            yield from _user(content)


def _assistant(content: Sequence[Block]) -> Iterator[Json]:
    text = "".join(str(block["text"]) for block in content if block["type"] == "text")
    calls: list[Json] = [
        {
            "id": block["id"],
            "type": "function",
            "function": {"name": block["name"], "arguments": json.dumps(block["input"])},
        }
        for block in content
        if block["type"] == "tool_use"
    ]
    if calls:
        yield {"role": "assistant", "content": text or None, "tool_calls": calls}
    elif text:
        yield {"role": "assistant", "content": text}


def _user(content: Sequence[Block]) -> Iterator[Json]:
    """Yield the answers of tools first: they must follow the calls at once."""
    rest: list[Json] = []
    for block in content:
        if block["type"] == "tool_result":
            parts = _blocks(block["content"])
            text = "\n".join(_text(part) for part in parts)
            yield {"role": "tool", "tool_call_id": block["tool_use_id"], "content": text}
            rest.extend(_part(part) for part in parts if part["type"] == "image")
        else:
            rest.append(_part(block))
    if rest:
        yield {"role": "user", "content": rest}


def _text(part: Block) -> str:
    match part["type"]:
        case "image":
            return _LEFT_OUT
        case "document":
            return without_document(part, _NO_DOCUMENTS)
        case _:
            return str(part.get("text", ""))


def _part(block: Block) -> Json:
    if block["type"] != "image":
        return {"type": "text", "text": _text(block)}
    source = block["source"]
    assert isinstance(source, dict)
    if source["type"] == "url":
        address = source["url"]
    else:
        address = f"data:{source['media_type']};base64,{source['data']}"
    return {"type": "image_url", "image_url": {"url": address}}


def _blocks(content: Json) -> list[Block]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    assert isinstance(content, list)
    return [block for block in content if isinstance(block, dict)]
