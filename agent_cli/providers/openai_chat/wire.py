"""Translate between our history and events and the messages of the Chat Completions API.

A request becomes the body of a chat completion, its chunks become our events and the reply. The
history is kept in blocks of the Messages API. Here each becomes a message of its own kind: tool
results have the role `tool`, calls are a field beside the text, and thinking goes back only to a
server that sent it as `reasoning_content`. The API cannot load tools later: `found_tools` has the
way round.
"""

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Final
from uuid import uuid4

from agent_cli.contracts.hosted_blocks import own_tools
from agent_cli.contracts.media_files import without_document
from agent_cli.contracts.provider import (
    BlockEnd,
    ModelRequest,
    Price,
    Reply,
    ReplyStart,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallStart,
)
from agent_cli.contracts.timeline import Block, Json, Usage
from agent_cli.contracts.tooling import INVALID_JSON
from agent_cli.core.api_messages import to_api
from agent_cli.providers.encoding import count_in, tool_input
from agent_cli.providers.failures import BrokenReply
from agent_cli.providers.found_tools import true_call, with_found
from agent_cli.providers.hosted_history import as_text
from agent_cli.system.records import dataclass, field
from agent_cli.system.shapes import objects_in

_EFFORTS: Final = ("minimal", "low", "medium", "high", "xhigh")
_NO_DOCUMENTS: Final = "this API takes no PDF"
_LEFT_OUT: Final = "[an image, which a tool's answer cannot hold in this API; it follows]"
_RETURNED: Final = "reasoning_content"
"""DeepSeek and Kimi refuse calls of their models that come back without this field.

Groq and Mistral refuse the field; they send reasoning in others, which never go back.
"""
_SIGNED: Final = "extra_content"
"""Gemini refuses calls of its models that come back without their signature in this field."""
_SEALED: Final = "reasoning_details"
"""The same behind OpenRouter, in a field of the message."""


def body(request: ModelRequest, *, is_openai: bool) -> dict[str, Json]:
    """Return the body for *request*; *is_openai* is False for servers that only copy the API."""
    messages, tools = with_found(
        to_api(as_text(request.messages)), own_tools(request.tools), tool_references=False
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
    written = [(message["role"], _blocks(message["content"])) for message in messages]
    thinks = any(_is_returned(block) for _, content in written for block in content)
    for role, content in written:
        if role == "assistant":
            yield from _assistant(content, thinks=thinks)
        else:
            yield from _user(content)


def _is_returned(block: Block) -> bool:
    return block["type"] == "thinking" and block.get("field") == _RETURNED


def _assistant(content: Sequence[Block], *, thinks: bool) -> Iterator[Json]:
    text = "".join(str(block["text"]) for block in content if block["type"] == "text")
    thought = "".join(str(block["thinking"]) for block in content if _is_returned(block))
    calls: list[Json] = [
        {
            "id": block["id"],
            "type": "function",
            "function": {"name": block["name"], "arguments": json.dumps(block["input"])},
            **({_SIGNED: block[_SIGNED]} if _SIGNED in block else {}),
        }
        for block in content
        if block["type"] == "tool_use"
    ]
    returned: dict[str, Json] = {_RETURNED: thought} if thinks else {}  # also blank
    if sealed := [each for block in content for each in objects_in(block.get(_SEALED))]:
        returned[_SEALED] = [*sealed]
    if calls:
        yield {"role": "assistant", "content": text or None, "tool_calls": calls, **returned}
    elif text:
        yield {"role": "assistant", "content": text, **returned}


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
    return [{"type": "text", "text": content}] if isinstance(content, str) else objects_in(content)


_STOP_REASONS: Final = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
    # Mistral; GLM; Together and TGI.
    "model_length": "model_context_window_exceeded",
    "sensitive": "refusal",
    "eos": "end_turn",
    "eos_token": "end_turn",
}
_CUT_OFF: Final = frozenset({"max_tokens", "refusal", "model_context_window_exceeded"})
"""Calls of such a reply do not run."""
_FAULTS: Final = frozenset({"error", "abort", "network_error", "insufficient_system_resource"})
"""What gateways, vLLM, GLM and DeepSeek call the end of a reply that broke off."""


@dataclass(slots=True)
class _Open:
    """The block that grows; a call also has an id and a name.

    `made_id`: the server sent no id. `extra`: what has to go back to the server with it.
    """

    kind: str
    key: int
    index: int
    id: str = ""
    name: str = ""
    made_id: bool = False
    extra: dict[str, Json] = field(default_factory=dict[str, Json])
    pieces: list[str] = field(default_factory=list[str])

    def is_whole(self) -> bool:
        """Return whether the arguments of a call are complete: nothing can follow them."""
        written = "".join(self.pieces)
        return bool(written.strip()) and tool_input(written) != {INVALID_JSON: written}

    def block(self) -> Block:
        written = "".join(self.pieces)
        if self.kind == "tool_use":
            call: Block = {"type": "tool_use", "id": self.id, "name": self.name, **self.extra}
            return true_call({**call, "input": tool_input(written)})
        return {"type": self.kind, self.kind: written, **self.extra}


class ChatReply:
    """One reply under construction. Feed it every chunk; `reply()` after the last one.

    Text and calls come without ends: a block ends where another begins. Reasoning, which some
    servers show, is an unsigned block of thinking, with the name of its field if it must go back.

    Attributes:
        begun: A chunk has come.
        has_all: The end and its usage have come: nothing of the reply can follow.
    """

    def __init__(self, model_id: str, request_id: str | None, price: Price) -> None:
        self.begun = False
        self._model = model_id
        self._id = ""
        self._request_id = request_id
        self._price = price
        self._usage: Mapping[str, Json] = {}
        self._finish = ""
        self.has_all = False
        self._open: _Open | None = None
        self._begun_blocks = 0
        self._content: list[Block] = []
        self._sealed: list[Json] = []

    def feed(self, chunk: Mapping[str, Json]) -> Iterator[StreamEvent]:
        """Process one chunk and yield our events for it. Unknown fields are skipped.

        Raises:
            BrokenReply: It does not have the form of a chunk.
        """
        if not self.begun:
            self.begun = True
            self._id = str(chunk.get("id") or "")
            self._model = str(chunk.get("model") or self._model)
            yield ReplyStart(self._model)
        if isinstance(usage := chunk.get("usage"), dict):
            self._usage = usage
        choices = chunk.get("choices") or []
        if not isinstance(choices, list):
            raise BrokenReply("the choices of a chunk are no list")
        for choice in choices[:1]:
            if not isinstance(choice, dict):
                raise BrokenReply("a choice is no object")
            delta = choice.get("delta") or choice.get("message")  # the latter in a whole reply
            if isinstance(delta, dict):
                yield from self._grow(delta)
            if finish := choice.get("finish_reason"):
                self._finish = str(finish)
        self.has_all = bool(self._finish) and isinstance(usage, dict)

    def close(self) -> None:
        """Process the end marker: some gateways send it without a reason before."""
        self._finish = self._finish or ("stop" if self._begun_blocks else "")

    @property
    def complete(self) -> bool:
        """Whether the server said that the reply ended."""
        return bool(self._finish)

    @property
    def fault(self) -> str:
        """The server's word for an end that is none of the model's; "" for any other."""
        return self._finish if self._finish in _FAULTS else ""

    def end(self) -> Iterator[StreamEvent]:
        """Yield the end of the block that is open, if any."""
        ended, self._open = self._open, None
        if ended is not None:
            if self._sealed and ended.kind == "tool_use":
                ended.extra[_SEALED], self._sealed = self._sealed, []
            block = ended.block()
            self._content.append(block)
            yield BlockEnd(ended.index, block)

    def reply(self) -> Reply:
        """Return the complete reply."""
        has_calls = any(block["type"] == "tool_use" for block in self._content)
        # Some servers end a reply with calls by "stop".
        stop = _STOP_REASONS.get(self._finish, self._finish)
        if has_calls and stop not in _CUT_OFF:
            stop = "tool_use"
        return Reply(
            id=self._id or f"chat_{uuid4().hex}",
            model=self._model,
            content=tuple(self._content),
            stop_reason=stop,
            usage=self._used(),
            request_id=self._request_id,
        )

    def _grow(self, delta: Mapping[str, Json]) -> Iterator[StreamEvent]:
        for name in (_RETURNED, "reasoning"):
            thought = delta.get(name)
            if thought and isinstance(thought, str):
                block = yield from self._block("thinking", -1)
                block.extra = {"field": name} if name == _RETURNED else {}
                block.pieces.append(thought)
                yield ThinkingDelta(block.index, thought)
                break  # some servers send both, with the same text
        details = objects_in(delta.get(_SEALED))
        self._sealed += [each for each in details if each.get("type") == "reasoning.encrypted"]
        for text in (*_texts(delta.get("content")), *_texts(delta.get("refusal"))):
            if self._open and self._open.kind == "tool_use" and text.isspace():
                continue  # a line break within a call would cut it in two
            block = yield from self._block("text", -1)
            block.pieces.append(text)
            yield TextDelta(block.index, text)
        calls = delta.get("tool_calls")
        for call in calls if isinstance(calls, list) else []:
            if not isinstance(call, dict):
                raise BrokenReply("a tool call is no object")
            yield from self._grow_call(call)

    def _grow_call(self, call: Mapping[str, Json]) -> Iterator[StreamEvent]:
        key, function = call.get("index"), call.get("function")
        function = function if isinstance(function, dict) else {}
        if not isinstance(key, int):  # some servers send each call whole, without its number
            key = self._begun_blocks if call.get("id") else (self._open.key if self._open else 0)
        id, name = str(call.get("id") or ""), str(function.get("name") or "")
        grown = self._open if self._open and self._open.kind == "tool_use" else None
        # Some servers give every call the number 0, and no id either; others repeat the name.
        if grown and name and (id != grown.id if id else grown.made_id and grown.is_whole()):
            yield from self.end()
            grown = None
        is_new = grown is None or grown.key != key
        if is_new and not name:
            raise BrokenReply("a piece of a tool call came without its beginning")
        block = yield from self._block("tool_use", key)
        if is_new:
            block.id, block.name, block.made_id = id or f"call_{uuid4().hex}", name, not id
            yield ToolCallStart(block.index, block.id, block.name)
        block.extra |= {_SIGNED: signed} if (signed := call.get(_SIGNED)) else {}
        arguments = function.get("arguments")
        if isinstance(arguments, dict):  # some servers send them as an object
            arguments = json.dumps(arguments)
        if arguments and isinstance(arguments, str):
            block.pieces.append(arguments)
            yield ToolCallDelta(block.index, arguments)

    def _block(self, kind: str, key: int) -> Generator[StreamEvent, None, _Open]:
        """Yield the end of another open block, if any, and return the block to add to."""
        if self._open is None or (self._open.kind, self._open.key) != (kind, key):
            yield from self.end()
            self._open = _Open(kind, key, self._begun_blocks)
            self._begun_blocks += 1
        return self._open

    def _used(self) -> Usage:
        read, written = (
            details if isinstance(details := self._usage.get(name), dict) else {}
            for name in ("prompt_tokens_details", "completion_tokens_details")
        )
        cached = count_in(read, "cached_tokens")
        tokens = Usage(
            input_tokens=max(count_in(self._usage, "prompt_tokens") - cached, 0),
            output_tokens=count_in(self._usage, "completion_tokens"),
            cache_read_tokens=cached,
            thinking_tokens=count_in(written, "reasoning_tokens"),
        )
        return tokens + Usage(cost_microdollars=self._price(self._model, tokens))


def _texts(content: Json) -> Iterator[str]:
    """Yield the texts of *content*; some servers send a list of parts."""
    for part in content if isinstance(content, list) else [content]:
        text = part.get("text") if isinstance(part, dict) else part
        if text and isinstance(text, str):
            yield text
