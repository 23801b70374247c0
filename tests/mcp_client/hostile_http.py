"""An MCP server over HTTP whose tool `go` answers as its argument says; `good` always answers."""

import codecs
import gzip
import json
import re
import socket
import struct
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any  # JSON

TEXT = {"content": [{"type": "text", "text": "answered"}]}
Answer = Callable[["Handler", bytes], None]
FATES: dict[str, str] = {}
"""What a call of `go` comes to: "answered", or a part of what its error says."""
ANSWERS: dict[str, Answer] = {}
NOTE = b'{"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info"}}'
COME_BACK = b"id: 1\nretry: 0\ndata: \n\n"
"""A stream that ends without an answer, and is to be resumed at once."""


class Handler(BaseHTTPRequestHandler):
    """Knows one session at a time, and forgets it once where the answer asks for that."""

    protocol_version = "HTTP/1.1"
    session = 1
    forgets = True
    resumed = 0
    refusals = 0
    together = threading.Barrier(1)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        message = json.loads(body)
        if "id" not in message:
            self.reply(202, b"")
            return
        match message["method"]:
            case "initialize" if Handler.refusals:
                Handler.refusals -= 1
                self.reply(503, b"")
                return
            case "initialize":
                result: Any = {
                    "protocolVersion": message["params"]["protocolVersion"],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "hostile", "version": "1"},
                }
            case "tools/list":
                names = ("go", "good")
                result = {"tools": [{"name": n, "inputSchema": {"type": "object"}} for n in names]}
            case "tools/call" if message["params"]["name"] == "go":
                good = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": TEXT})
                ANSWERS[message["params"]["arguments"]["action"]](self, good.encode())
                return
            case "tools/call":
                result = TEXT
            case _:
                self.error(200, -32601, "no such method", message["id"])
                return
        good = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})
        self.reply(200, good.encode(), {"Mcp-Session-Id": f"session-{Handler.session}"})

    def do_GET(self) -> None:
        if self.headers.get("Last-Event-ID", "gone") == "gone":
            self.reply(405, b"")
            return
        Handler.resumed += 1
        self.stream(COME_BACK)

    def do_DELETE(self) -> None:
        self.reply(405, b"")

    def is_forgotten(self) -> bool:
        """Return whether this is a forgotten session; the first check ends it."""
        known = self.headers.get("Mcp-Session-Id") == f"session-{Handler.session}"
        if known and Handler.forgets:
            Handler.forgets = False
            Handler.session += 1
            return True
        return False

    def reply(
        self, status: int, body: bytes, headers: dict[str, str] | None = None, *, more: int = 0
    ) -> None:
        """Send a response that promises *more* bytes than it has."""
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) + more))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()
        self.close_connection = bool(more)

    def error(self, status: int, code: int, message: str, id: Any = None) -> None:
        value = {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}
        self.reply(status, json.dumps(value).encode())

    def stream(self, data: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


def answer(fate: str) -> Callable[[Answer], Answer]:
    def note(do: Answer) -> Answer:
        FATES[do.__name__] = fate
        ANSWERS[do.__name__] = do
        return do

    return note


@answer("answered")
def half_a_character(handler: Handler, good: bytes) -> None:
    handler.reply(200, good.replace(b"answered", rb"answered \ud83d"))


@answer("answered")
def half_a_character_in_a_stream(handler: Handler, good: bytes) -> None:
    mended = good.replace(b"answered", rb"answered \ud83d\ud83d\ude00")
    handler.stream(b"event: message\ndata: " + mended + b"\n\n")


@answer("answered")
def forgotten_with_404(handler: Handler, good: bytes) -> None:
    if handler.is_forgotten():
        handler.reply(404, b"")
    else:
        handler.reply(200, good)


@answer("answered")
def forgotten_as_the_typescript_sdk_says_it(handler: Handler, good: bytes) -> None:
    if handler.is_forgotten():
        handler.error(404, -32001, "Session not found")
    else:
        handler.reply(200, good)


@answer("answered")
def forgotten_by_a_restart(handler: Handler, good: bytes) -> None:
    if handler.is_forgotten():
        handler.error(400, -32000, "Bad Request: No valid session ID provided")
    else:
        handler.reply(200, good)


@answer("answered")
def forgotten_by_a_restart_that_takes_a_while(handler: Handler, good: bytes) -> None:
    if handler.is_forgotten():
        Handler.refusals = 2
        handler.error(404, -32001, "Session not found")
    else:
        handler.reply(200, good)


@answer("answered")
def never_initialized(handler: Handler, good: bytes) -> None:
    if handler.is_forgotten():
        handler.error(400, -32000, "Bad Request: Server not initialized")
    else:
        handler.reply(200, good)


@answer("answered")
def forgotten_in_plain_text(handler: Handler, good: bytes) -> None:
    if handler.is_forgotten():
        # Express calls a bare text a page.
        handler.reply(400, b"No valid session ID provided", {"Content-Type": "text/html"})
    else:
        handler.reply(200, good)


@answer("gave no result: the connection broke off before the answer (peer closed connection")
def a_truncated_body(handler: Handler, good: bytes) -> None:
    handler.reply(200, good[:20], more=100)


@answer("gave no result: the connection broke off before the answer (connection reset by peer)")
def a_reset(handler: Handler, good: bytes) -> None:
    linger = struct.pack("ii", 1, 0)
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    handler.rfile.close()
    handler.wfile.close()
    handler.connection.close()
    handler.close_connection = True


@answer("gave no result: the connection broke off before the answer (Error -3")
def a_body_that_is_not_gzip(handler: Handler, good: bytes) -> None:
    handler.reply(200, good, {"Content-Encoding": "gzip"})


@answer("answered")
def a_body_in_gzip(handler: Handler, good: bytes) -> None:
    handler.reply(200, gzip.compress(good), {"Content-Encoding": "gzip"})


@answer("answered with more than 32 MB, which is not read. The call has probably taken effect")
def a_body_without_an_end(handler: Handler, good: bytes) -> None:
    try:
        handler.reply(200, good + b" " * 40_000_000)
    except OSError:
        handler.close_connection = True


@answer("gave no result: its stream ended before the answer. The call may have taken effect")
def a_stream_without_an_answer(handler: Handler, good: bytes) -> None:
    handler.stream(b": good morning\n\n")


@answer("gave no result: its stream broke off and could not be resumed. The call may have taken")
def a_stream_that_cannot_be_resumed(handler: Handler, good: bytes) -> None:
    handler.stream(COME_BACK.replace(b"id: 1", b"id: gone"))


@answer("gave no result: its stream ended before the answer. The call may have taken effect")
def an_event_that_is_not_mcp(handler: Handler, good: bytes) -> None:
    handler.stream(b'event: message\ndata: {"ok": true}\n\n')


@answer("answered")
def an_answer_behind_events_that_are_not_mcp(handler: Handler, good: bytes) -> None:
    beside = b'data: ping\n\ndata: {"ok": true}\n\nevent: ping\ndata: 1\n\n: hello\n\n'
    handler.stream(beside + b"data: " + good + b"\n\n")


@answer("answered")
def an_event_of_another_name(handler: Handler, good: bytes) -> None:
    handler.stream(b"event: ping\ndata: {}\n\nevent: response\ndata: " + good + b"\n\n")


@answer("answered")
def lines_that_end_with_a_carriage_return(handler: Handler, good: bytes) -> None:
    handler.stream(b"event: message\rdata: " + good + b"\r\r")
    handler.wfile.flush()
    handler.connection.recv(1)


@answer("answered")
def lines_cut_between_carriage_return_and_line_feed(handler: Handler, good: bytes) -> None:
    handler.stream(b"")
    lines = json.dumps(json.loads(good), indent=1).encode().split(b"\n")
    for line in lines:
        handler.wfile.write(b"data: " + line + b"\r")
        handler.wfile.flush()
        handler.wfile.write(b"\n")
        handler.wfile.flush()
    handler.wfile.write(b"\r\n")


@answer("answered")
def a_result_with_the_status_of_an_error(handler: Handler, good: bytes) -> None:
    handler.reply(500, good)


@answer("answered")
def an_event_behind_a_byte_order_mark(handler: Handler, good: bytes) -> None:
    handler.stream(codecs.BOM_UTF8 + b"data: " + good + b"\n\n")


@answer("answered")
def a_batch_in_an_event(handler: Handler, good: bytes) -> None:
    handler.stream(b"data: [" + NOTE + b"," + good + b"]\n\n")


@answer("answered")
def an_event_over_several_lines(handler: Handler, good: bytes) -> None:
    lines = json.dumps(json.loads(good), indent=1).encode().split(b"\n")
    handler.stream(b"".join(b"data: " + line + b"\r\n" for line in lines) + b"\r\n")


@answer("answered")
def a_stream_without_its_last_line_break(handler: Handler, good: bytes) -> None:
    handler.stream(b"data: " + good)


@answer("answered")
def an_event_without_an_end_in_an_open_stream(handler: Handler, good: bytes) -> None:
    handler.stream(b"id: 1\nevent: message\ndata: " + good + b"\n")
    handler.wfile.flush()
    handler.connection.recv(1)  # until the client has its answer


@answer("answered")
def an_answer_behind_a_notification_without_a_blank_line(handler: Handler, good: bytes) -> None:
    handler.stream(b"data: " + NOTE + b"\nevent: message\ndata: " + good + b"\n")
    handler.wfile.flush()
    handler.connection.recv(1)


@answer("answered")
def an_event_in_pieces(handler: Handler, good: bytes) -> None:
    nested = {**json.loads(good), "a": [{"b": {"c": 1}}]}
    handler.stream(b"data: ")
    for piece in re.findall(rb".+?[}\]]+", json.dumps(nested).encode()):
        handler.wfile.write(piece)
        handler.wfile.flush()
    handler.wfile.write(b"\n\n")


@answer("answered with more than 32 MB, which is not read. The call has probably taken effect")
def an_event_that_is_too_long(handler: Handler, good: bytes) -> None:
    try:
        handler.stream(b"data: " + good.replace(b"answered", b"x" * 40_000_000))
    except OSError:
        handler.close_connection = True


@answer("gave no result: its answer, HTTP 202 (Accepted), is empty. The call may have taken effect")
def accepted(handler: Handler, good: bytes) -> None:
    handler.reply(202, b"")


@answer("gave no result: its answer, HTTP 204 (No Content), is empty. The call may have")
def no_content(handler: Handler, good: bytes) -> None:
    handler.reply(204, b"")


@answer("gave no result: its answer, HTTP 200 (OK), is text/html, not MCP. The call may have")
def a_page(handler: Handler, good: bytes) -> None:
    handler.reply(200, b"<html>Log in</html>", {"Content-Type": "text/html"})


@answer("gave no result: its answer, HTTP 200 (OK), is not MCP: {. The call may have taken effect")
def no_json(handler: Handler, good: bytes) -> None:
    handler.reply(200, b"{")


@answer('gave no result: its answer, HTTP 200 (OK), is not MCP: {"ok": true}. The call may have')
def json_that_is_not_mcp(handler: Handler, good: bytes) -> None:
    handler.reply(200, b'{"ok": true}')


@answer("gave no result: its answer is not valid MCP. The call may have taken effect")
def a_result_that_is_a_list(handler: Handler, good: bytes) -> None:
    handler.reply(200, b'{"jsonrpc": "2.0", "id": 4, "result": [1, 2]}')


@answer("answered")
def an_answer_without_a_media_type(handler: Handler, good: bytes) -> None:
    handler.reply(200, good, {"Content-Type": ""})


@answer("answered")
def an_answer_to_another_id(handler: Handler, good: bytes) -> None:
    handler.reply(200, json.dumps({**json.loads(good), "id": 4.5}).encode())


@answer("answered")
def an_answer_in_a_batch(handler: Handler, good: bytes) -> None:
    handler.reply(200, b"[" + good + b"]")


@answer("refused the call: no such customer")
def an_error_about_no_id(handler: Handler, good: bytes) -> None:
    handler.error(200, -32602, "no such customer")


@answer("refused the call: no such customer")
def an_error_that_is_a_text(handler: Handler, good: bytes) -> None:
    handler.reply(200, b'{"error": "no such customer"}')


@answer("HTTP 403 (Forbidden: not in your plan). The sign-in does not allow this")
def an_error_of_fastapi(handler: Handler, good: bytes) -> None:
    handler.reply(403, b'{"detail": "not in your plan"}')


@answer("HTTP 400 (Bad Request: a is missing). It did not accept the call")
def an_error_that_is_not_mcp(handler: Handler, good: bytes) -> None:
    handler.reply(400, b'{"error": {"message": "a is missing"}}')


@answer("HTTP 401 (Unauthorized). It asks for a sign-in: the user can run /mcp login web.")
def unauthorized(handler: Handler, good: bytes) -> None:
    handler.reply(401, b"")


@answer("HTTP 403 (Forbidden: not for you). The sign-in does not allow this")
def forbidden(handler: Handler, good: bytes) -> None:
    handler.reply(403, b"not for you", {"Content-Type": "text/plain"})


@answer("HTTP 429 (Too Many Requests: it asks to wait 50 min). It has too many requests: wait")
def too_many_requests(handler: Handler, good: bytes) -> None:
    handler.reply(429, b"", {"Retry-After": "3000"})


@answer("HTTP 500 (Internal Server Error: boom). The fault is the server's")
def broken(handler: Handler, good: bytes) -> None:
    handler.error(500, -32603, "boom")


@answer("HTTP 502 (Bad Gateway). The fault is the server's")
def a_proxys_page(handler: Handler, good: bytes) -> None:
    handler.reply(502, b"<html>" + b"x" * 9000, {"Content-Type": "text/html"})


@answer("refused the call: no such customer")
def a_rpc_error(handler: Handler, good: bytes) -> None:
    handler.error(400, -32602, "no such customer")


@answer("answered")
def sent_to_the_same_path_with_a_slash(handler: Handler, good: bytes) -> None:
    if handler.path.endswith("/"):
        handler.reply(200, good)
    else:
        handler.reply(307, b"", {"Location": f"{handler.path}/"})


@answer("Redirect to http://elsewhere.invalid/mcp not followed")
def sent_elsewhere(handler: Handler, good: bytes) -> None:
    handler.reply(307, b"", {"Location": "http://elsewhere.invalid/mcp"})


def forgotten_together(handler: Handler, good: bytes) -> None:
    """Refuse the calls of the forgotten session, once all are there."""
    if handler.headers.get("Mcp-Session-Id") == "session-1":
        Handler.together.wait()
        Handler.session = 2
        handler.error(400, -32000, "Bad Request: No valid session ID provided")
    else:
        handler.reply(200, good)


ANSWERS["forgotten_together"] = forgotten_together
ANSWERS["come_back"] = lambda handler, _good: handler.stream(COME_BACK)


@contextmanager
def hostile_http() -> Generator[str]:
    """Serve on a free port of this machine while the body runs; yield the address."""
    Handler.session, Handler.forgets, Handler.resumed, Handler.refusals = 1, True, 0, 0
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as web:
        web.daemon_threads = True
        thread = threading.Thread(target=web.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{web.server_address[1]}/mcp"
        finally:
            web.shutdown()
            thread.join()
