"""A server of the Chat Completions API that refuses what the real one refuses."""

import json
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

Chunk = Mapping[str, Any]


@dataclass(frozen=True)
class Stream:
    """An answer with status 200: its chunks, as they come, and the end marker.

    Without the marker the body ends, the connection breaks, or nothing follows until the client
    leaves.
    """

    chunks: Sequence[Chunk | str]
    is_ended: bool = True
    then: Literal["end", "break", "silence"] = "end"


@dataclass(frozen=True)
class Failure:
    """An answer with an error status; the error is the body itself if it *is_bare*."""

    status: int
    error: Any
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    is_bare: bool = False


@dataclass
class ChatServer:
    """The server while it runs: its address, its script, and the bodies it received."""

    url: str
    script: list[Stream | Failure]
    received: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    headers: list[Mapping[str, str]] = field(default_factory=list[Mapping[str, str]])
    connections_made: int = 0


def chunk(delta: Mapping[str, Any], finish: str | None = None) -> Chunk:
    """Return a chunk with one choice."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "model": "m-1",
        "choices": [choice],
    }


def used(prompt: int, completion: int, cached: int = 0, reasoning: int = 0) -> Chunk:
    """Return the last chunk, which has the usage and no choice."""
    usage = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    }
    return {"id": "chatcmpl-1", "model": "m-1", "choices": [], "usage": usage}


def text(words: str) -> Stream:
    """Return a whole answer of one text."""
    return Stream([chunk({"role": "assistant", "content": words}), chunk({}, "stop"), used(10, 2)])


@contextmanager
def chat_server(*script: Stream | Failure) -> Generator[ChatServer]:
    """Serve *script*, an answer for each request."""
    state = ChatServer("", list(script))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # connections stay open

        def setup(self) -> None:
            super().setup()
            state.connections_made += 1

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            state.received.append(body)
            state.headers.append(dict(self.headers.items()))
            fault = _fault(self.path, body)
            answer = Failure(400, {"message": fault}) if fault else state.script.pop(0)
            if isinstance(answer, Failure):
                sent = answer.error if answer.is_bare else {"error": answer.error}
                self._send(answer.status, json.dumps(sent), answer.headers)
                return
            events = [e if isinstance(e, str) else json.dumps(e) for e in answer.chunks]
            if answer.is_ended:
                events.append("[DONE]")
            stream = "".join(f"data: {event}\n\n" for event in events)
            kind = {"content-type": "text/event-stream"}
            self._send(200, stream, kind, missing_bytes=answer.then != "end")
            if answer.then == "silence":
                self.rfile.read(1)

        def _send(
            self, status: int, content: str, headers: Mapping[str, str], *, missing_bytes: int = 0
        ) -> None:
            self.send_response(status)
            given = {"content-type": "application/json", "x-request-id": "req-1", **headers}
            for name, value in given.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(content.encode()) + missing_bytes))
            self.close_connection = missing_bytes > 0
            self.end_headers()
            self.wfile.write(content.encode())

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.block_on_close = False  # it would wait for connections that a client keeps
    state.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _fault(path: str, body: Mapping[str, Any]) -> str:
    """Return why the real API would refuse *body*, or ""."""
    if path != "/v1/chat/completions":
        return f"unknown path {path}"
    if not body.get("stream") or not body.get("messages"):
        return "messages must be an array with at least one message"
    open_calls: list[str] = []
    for at, message in enumerate(body["messages"]):
        role, content = message["role"], message.get("content")
        if role == "tool":
            if message["tool_call_id"] not in open_calls:
                return f"messages.[{at}]: a tool message must follow its tool_calls"
            open_calls.remove(message["tool_call_id"])
            if not isinstance(content, str):
                return f"messages.[{at}]: the content of a tool must be text"
            continue
        if open_calls:
            return f"an assistant message with tool_calls must be followed by answers: {open_calls}"
        if not content and not message.get("tool_calls"):
            return f"messages.[{at}]: content must not be empty"
        for call in message.get("tool_calls", ()):
            json.loads(call["function"]["arguments"])
            open_calls.append(call["id"])
    return "tool_calls without answers" if open_calls else ""
