"""A scripted reply on the wire: its events, their pace, and the fault that ends them."""

import json
from collections.abc import Collection, Iterator

from tests.messages_api.gate import Gate
from tests.messages_api.hosted_rules import usage_of
from tests.messages_api.script import Fault, Payload, Reply, Step


def steps_of(answer: Reply, message: Payload, *, eager: Collection[str] = ()) -> tuple[Step, ...]:
    """Return the body of *answer*; *message* is the `message` of its message_start, with usage.

    Each value in the input of a tool is held back until it is whole, except for the *eager* ones.
    """
    events = list(_events(answer, message))
    for index, payload in answer.extra_events:
        events.insert(index, payload)
    held = _held_back(answer, eager)
    if answer.fault is None:
        return tuple(_paced(answer, events, held))
    kept = events[: answer.fault_after]
    rest = [_sse(event, answer) for event in events[answer.fault_after :]]
    return (*_paced(answer, kept, held), *_fault_steps(answer, rest))


def eager_tools(body: Payload) -> set[str]:
    """Return the names of the tools in *body* whose input is sent as it is written."""
    tools = body.get("tools") or []
    return {tool["name"] for tool in tools if tool.get("eager_input_streaming")}


def _held_back(answer: Reply, eager: Collection[str]) -> set[int]:
    return {
        index
        for index, block in enumerate(answer.blocks)
        if block["type"] == "tool_use" and block["name"] not in eager
    }


def _events(answer: Reply, message: Payload) -> Iterator[Payload]:
    yield {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}
    for index, block in enumerate(answer.blocks):
        if answer.pings:
            yield {"type": "ping"}
        yield from _block_events(index, block, answer.chunk_chars)
    delta: Payload = {"stop_reason": answer.stop_reason, "stop_sequence": None}
    if answer.stop_details is not None:
        delta["stop_details"] = answer.stop_details
    last: Payload = {"type": "message_delta", "delta": delta}
    if message.get("usage"):
        last["usage"] = {"output_tokens": message["usage"].get("_output_tokens", 1)}
        last["usage"] |= usage_of(answer.blocks)
        if details := message["usage"].get("output_tokens_details"):
            last["usage"]["output_tokens_details"] = details
    yield last
    yield {"type": "message_stop"}


def _block_events(index: int, block: Payload, chunk_chars: int) -> Iterator[Payload]:
    start, deltas = _start_and_deltas(block, chunk_chars)
    yield {"type": "content_block_start", "index": index, "content_block": start}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def _start_and_deltas(block: Payload, chunk_chars: int) -> tuple[Payload, list[Payload]]:
    match block["type"]:
        case "text":
            parts = _parts(block["text"], chunk_chars)
            deltas = [{"type": "text_delta", "text": part} for part in parts]
            cited = block.get("citations") or []
            deltas += [{"type": "citations_delta", "citation": each} for each in cited]
            start = {**block, "citations": []} if cited else block
            return {**start, "text": ""}, deltas
        case "thinking":
            parts = _parts(block["thinking"], chunk_chars)
            deltas = [{"type": "thinking_delta", "thinking": part} for part in parts]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
            return {"type": "thinking", "thinking": "", "signature": ""}, deltas
        case "tool_use" | "server_tool_use":
            written = block.get("_raw", json.dumps(block["input"], ensure_ascii=False))
            deltas = [
                {"type": "input_json_delta", "partial_json": part}
                for part in _parts(written, chunk_chars)
            ]
            start = {key: value for key, value in block.items() if key != "_raw"}
            return {**start, "input": {}}, deltas
        case _:
            return block, []


def _parts(content: str, chunk_chars: int) -> list[str]:
    return [content[i : i + chunk_chars] for i in range(0, len(content), chunk_chars)]


def _sse(event: Payload, answer: Reply) -> bytes:
    written = json.loads(json.dumps(event))
    if event["type"] == "message_start" and "usage" in written["message"]:
        for counted_later in ("_output_tokens", "output_tokens_details"):
            written["message"]["usage"].pop(counted_later, None)
    name = f"event: {event['type']}\n" if answer.event_lines else ""
    return f"{name}data: {json.dumps(written, ensure_ascii=False)}\n\n".encode()


def _paced(answer: Reply, events: list[Payload], held: Collection[int]) -> Iterator[Step]:
    """Yield the events, with a wait at the gate for each piece that the model writes."""
    waiting: list[bytes] = []
    written = _Input()
    for index, event in enumerate(events):
        if answer.gate is not None and answer.fault != "stall":
            every_delta = answer.hold_at is None and event["type"] == "content_block_delta"
            if every_delta or answer.hold_at == index:
                yield answer.gate
        if event["type"] == "content_block_start":
            written = _Input()
        elif event["type"] == "content_block_stop" and answer.stop_reason == "max_tokens":
            waiting.clear()  # a value that was cut is never sent
        waiting.append(_sse(event, answer))
        is_held = event["type"] == "content_block_delta" and event["index"] in held
        if not is_held or written.ends_value(event["delta"]["partial_json"]):
            yield from waiting
            waiting.clear()
    yield from waiting


class _Input:
    """The input of a call, as the model writes it."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_text = self._escaped = False

    def ends_value(self, piece: str) -> bool:
        """Take the next piece; return whether a value of the input ends in it."""
        ended = False
        for char in piece:
            if self._in_text:
                self._in_text = self._escaped or char != '"'
                self._escaped = char == "\\" and not self._escaped
            elif char == '"':
                self._in_text = True
            else:
                self._depth += (char in "{[") - (char in "}]")
                ended |= char in ",}" and self._depth <= 1
        return ended


def _fault_steps(answer: Reply, rest: list[bytes]) -> tuple[Step, ...]:
    def error_event(kind: str, message: str) -> bytes:
        body = {"type": "error", "error": {"type": kind, "message": message}}
        return f"event: error\ndata: {json.dumps(body)}\n\n".encode()

    match answer.fault:
        case "drop":
            return (Fault.DROP,)
        case "reset":
            return (Fault.RESET,)
        case "stall":
            return (answer.gate or Gate(), Fault.DROP)
        case "error":
            return (error_event("overloaded_error", "Overloaded"),)
        case "rate_limit":
            return (error_event("rate_limit_error", "Too many requests"),)
        case "invalid":
            return (error_event("invalid_request_error", "Not like this"),)
        case "error_text":
            return (b"event: error\ndata: upstream went away\n\n",)
        case "bad_json":
            return (b'event: content_block_delta\ndata: {"type": "content_bl\n\n', *rest)
        case "bad_utf8":
            line = b'event: content_block_delta\ndata: {"type": "content_block_delta", "x": "\xff"}'
            return (line + b"\n\n", *rest)
        case "bad_index":
            stray = {"type": "content_block_delta", "index": 77}
            delta = {"type": "text_delta", "text": "?"}
            return (_sse({**stray, "delta": delta}, answer), *rest)
        case _:
            return ()
