"""Scripted answers and their form on the wire."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, TypeAlias

from tests.messages_api.gate import Gate

# Any: JSON as a test writes it or as a request under test contains it.
Payload: TypeAlias = dict[str, Any]

FAULTS = {
    "drop": "the connection closes in the middle of a chunk (FIN)",
    "reset": "the connection is reset (RST)",
    "stall": "silence until the reply's gate opens, then a drop",
    "eof": "the body ends well-formed, without message_stop",
    "error": "an `error` event (overloaded_error) inside the 200",
    "rate_limit": "an `error` event (rate_limit_error) inside the 200",
    "invalid": "an `error` event (invalid_request_error) inside the 200",
    "error_text": "an `error` event whose data is not JSON",
    "bad_json": "a data line with truncated JSON, then the rest",
    "bad_utf8": "a data line with invalid UTF-8, then the rest",
    "bad_index": "a delta for a block that never began, then the rest",
}


class Fault:
    """Ends a response in a way that HTTP does not allow."""

    DROP = "drop"
    RESET = "reset"


Step: TypeAlias = bytes | Gate | str
"""A chunk to send, a gate to wait at, or one of Fault's values."""


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """A raw response: `steps` are the chunks of its body."""

    status: int
    headers: Mapping[str, str]
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A reply of the model; see the package's docstring."""

    blocks: tuple[Payload, ...] = ()
    stop_reason: str | None = None
    stop_details: Payload | None = None
    usage: Payload | None = None
    model: str | None = None
    chunk_chars: int = 16
    pings: bool = False
    event_lines: bool = True
    gate: Gate | None = None
    hold_at: int | None = None
    fault: str | None = None
    fault_after: int = 0
    extra_events: tuple[tuple[int, Payload], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


Answer: TypeAlias = Reply | RawAnswer


def text(content: str) -> Payload:
    """Return a text block."""
    return {"type": "text", "text": content}


def thinking(content: str, signature: str | None = None) -> Payload:
    """Return a thinking block; its signature is derived from the text, so it verifies anywhere."""
    return {
        "type": "thinking",
        "thinking": content,
        "signature": signature or signature_of(content),
    }


def signature_of(content: str) -> str:
    """Return the signature this server gives to thinking of this text."""
    return "sig_" + sha256(content.encode()).hexdigest()[:24]


def redacted_thinking(data: str) -> Payload:
    """Return a redacted thinking block."""
    return {"type": "redacted_thinking", "data": data}


def tool_use(
    name: str, arguments: Payload | None = None, *, id: str | None = None, raw: str | None = None
) -> Payload:
    """Return a tool call; *raw* replaces its arguments' JSON text; the server makes up its id."""
    block: Payload = {"type": "tool_use", "id": id, "name": name, "input": arguments or {}}
    return block if raw is None else {**block, "_raw": raw}


def reply(
    *blocks: str | Payload,
    stop_reason: str | None = None,
    stop_details: Payload | None = None,
    usage: Payload | None = None,
    model: str | None = None,
    chunk_chars: int = 16,
    pings: bool = False,
    event_lines: bool = True,
    gate: Gate | None = None,
    hold_at: int | None = None,
    extra_events: tuple[tuple[int, Payload], ...] = (),
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """Return a reply of *blocks* (a str is a text block).

    Args:
        stop_reason: Default: "tool_use" if a call is among the blocks, else "end_turn".
        usage: Replaces the simulated figures; {} sends none.
        event_lines: False leaves the `event:` lines out, as some servers do.
        hold_at: Wait at *gate* only before this event (0 is message_start), not before deltas.
        extra_events: (index, payload) pairs to insert before the event of that index.
    """
    given = tuple(text(block) if isinstance(block, str) else block for block in blocks)
    calls = any(block["type"] == "tool_use" for block in given)
    return Reply(
        blocks=given,
        stop_reason=stop_reason or ("tool_use" if calls else "end_turn"),
        stop_details=stop_details,
        usage=usage,
        model=model,
        chunk_chars=chunk_chars,
        pings=pings,
        event_lines=event_lines,
        gate=gate,
        hold_at=hold_at,
        extra_events=extra_events,
        headers=headers or {},
    )


def broken(answer: Reply, fault: str, *, after: int = 3) -> Reply:
    """Return *answer* with *fault* (a key of FAULTS) after *after* SSE events."""
    if fault not in FAULTS:
        raise ValueError(f"no fault {fault!r}; there are: {', '.join(FAULTS)}")
    return replace(answer, fault=fault, fault_after=after)


def raw(
    status: int,
    body: bytes = b"",
    *,
    content_type: str = "text/event-stream",
    headers: Mapping[str, str] | None = None,
) -> RawAnswer:
    """Return a response of exactly this body."""
    steps = (body,) if body else ()
    return RawAnswer(status, {"content-type": content_type, **(headers or {})}, steps)


def error(
    status: int,
    kind: str,
    message: str,
    *,
    code: str | None = None,
    headers: Mapping[str, str] | None = None,
    request_id: str = "req_scripted_error",
) -> RawAnswer:
    """Return an error response as the API documents it; *code* goes to `details.error_code`."""
    body: Payload = {
        "type": "error",
        "error": {"type": kind, "message": message},
        "request_id": request_id,
    }
    if code is not None:
        body["error"]["details"] = {"error_code": code}
    return raw(
        status,
        json.dumps(body).encode(),
        content_type="application/json",
        headers={"request-id": request_id, **(headers or {})},
    )


MakeAnswer: TypeAlias = Callable[[Any], Answer]  # Any: ReceivedRequest, which imports this module
