"""The server: HTTP/1.1 with keep-alive, one route, scripted answers."""

import asyncio
import itertools
import json
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Self, TypeAlias

from tests.messages_api.batches import PATH as BATCHES_PATH
from tests.messages_api.batches import FakeBatches
from tests.messages_api.compaction_rules import signed
from tests.messages_api.gate import Gate
from tests.messages_api.hosted_rules import runs
from tests.messages_api.prompt_cache import PromptCache
from tests.messages_api.received import ReceivedRequest
from tests.messages_api.refusals import Refusal
from tests.messages_api.rules import COUNT_PATH, check, check_count
from tests.messages_api.script import (
    Answer,
    Fault,
    MakeAnswer,
    Payload,
    RawAnswer,
    Reply,
    error,
    raw,
)
from tests.messages_api.signed_thinking import SignedThinking
from tests.messages_api.threads import HeldThreads
from tests.messages_api.wire_format import eager_tools, steps_of

Door: TypeAlias = Callable[[ReceivedRequest], ReceivedRequest | Refusal]
"""What a cloud puts before the API: refuses a request, or returns what the API gets."""
CountTokens: TypeAlias = Callable[[ReceivedRequest], int | RawAnswer | None]
"""Returns the answer to a request for a count; None: this server has no such route."""
_HEAD_END = b"\r\n\r\n"
NO_LINGER = struct.pack("ii", 1, 0)


class FakeMessagesApi:
    """See the package's docstring."""

    def __init__(
        self,
        *script: Answer | MakeAnswer,
        answer: MakeAnswer | None = None,
        key: str | None = None,
        context_window: int | None = None,
        cache_minimum_tokens: int = 0,
        door: Door | None = None,
        count: CountTokens | None = None,
    ) -> None:
        self.script: list[Answer | MakeAnswer] = list(script)
        self.requests: list[ReceivedRequest] = []
        self.counted: list[ReceivedRequest] = []
        self.models: list[Payload] = []
        self.model_list = ""
        self.refusals: list[Refusal] = []
        self.dropped_thinking: list[Payload] = []
        self.broken_answers: list[Exception] = []
        self.connections_made = 0
        self.port = 0
        self._answer = answer
        self._key = key
        self._context_window = context_window
        self._door = door
        self._count = count
        self._cache = PromptCache(cache_minimum_tokens)
        self._thinking = SignedThinking()
        self.posted: list[ReceivedRequest] = []
        self.threads = HeldThreads()
        self.batches = FakeBatches(self._take, key)
        self._next = itertools.count(1)
        self._arrived = threading.Condition()
        self._connections: set[_Connection] = set()
        self._server: asyncio.Server | None = None

    @property
    def base_url(self) -> str:
        """The value for ANTHROPIC_BASE_URL."""
        return f"http://127.0.0.1:{self.port}"

    def wait_for_requests(self, count: int, *, limit_s: float = 60) -> None:
        """Block until *count* requests have arrived. Not from the server's own loop."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: len(self.requests) >= count, limit_s):
                raise TimeoutError(f"{len(self.requests)} of {count} requests after {limit_s} s")

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_exc: object) -> None:
        assert self._server is not None
        # A connection that is accepted when the server closes would never be ours to close.
        for listening in self._server.sockets:
            asyncio.get_running_loop().remove_reader(listening.fileno())
        for _ in ("its transport is made", "its protocol is told"):
            await asyncio.sleep(0)
        self._server.close()
        for connection in tuple(self._connections):
            await connection.close()
        await self._server.wait_closed()
        if self.broken_answers:
            raise self.broken_answers[0]

    def answer_to(self, request: ReceivedRequest) -> RawAnswer:
        """Return the answer to send; an error in the test's own function is raised at the end."""
        try:
            return self._answer_to(request)
        except Exception as problem:  # the client must not wait for an answer that never comes
            self.broken_answers.append(problem)
            sentence = f"the test server could not answer: {problem!r}"
            return error(500, "api_error", sentence, headers={"x-should-retry": "false"})

    def _answer_to(self, request: ReceivedRequest) -> RawAnswer:
        if request.method == "GET" and request.path.partition("?")[0] == "/v1/models":
            return self._model_list(request)
        if (request.method, request.path) == ("POST", COUNT_PATH):
            return self._counted(request, self._count(request) if self._count else None)
        posted, whole = request, self.threads.whole(request)
        request = posted if isinstance(whole, Refusal) else whole
        with self._arrived:
            self.posted.append(posted)
            self.requests.append(request)
            self._arrived.notify_all()
        if request.path.startswith(BATCHES_PATH):
            return self.batches.answer_to(request)
        passed = self._door(request) if self._door else request
        if isinstance(passed, Refusal):
            refusal: Refusal | None = passed
        elif isinstance(whole, Refusal):
            refusal = whole
        else:
            request = passed
            refusal = check(request.method, request.path, request.headers, request.raw, self._key)
            refusal = refusal or self._check_against_memory(request)
        if refusal is not None:
            self.refusals.append(refusal)
            return error(
                refusal.status,
                refusal.kind,
                refusal.message,
                code=refusal.code,
                request_id=f"req_{next(self._next):06}",
            )
        answer = self._take(request)
        return self._speak(request, posted, answer) if isinstance(answer, Reply) else answer

    def _model_list(self, request: ReceivedRequest) -> RawAnswer:
        """Return the models, two a page, or `model_list`; this does not use the script."""
        if not request.headers.get("authorization", "").startswith("Bearer "):
            return error(401, "authentication_error", "Authorization header is required")
        ids = [model["id"] for model in self.models]
        _, found, after = request.path.partition("after_id=")
        first = ids.index(after) + 1 if found else 0
        shown = self.models[first : first + 2]
        page: Payload = {"data": shown, "has_more": first + 2 < len(ids)}
        page["last_id"] = shown[-1]["id"] if shown else None
        body = (self.model_list or json.dumps(page)).encode()
        return raw(200, body, content_type="application/json")

    def _counted(self, request: ReceivedRequest, tokens: int | RawAnswer | None) -> RawAnswer:
        """Return the count of the prompt; like the list, this does not use the script."""
        self.counted.append(request)
        if tokens is None:
            return error(404, "not_found_error", f"Not found: {COUNT_PATH}")
        if isinstance(tokens, RawAnswer):
            return tokens
        if refusal := check_count(request.headers, request.raw, self._key):
            self.refusals.append(refusal)
            return error(refusal.status, refusal.kind, refusal.message)
        body = json.dumps({"input_tokens": tokens}).encode()
        return raw(200, body, content_type="application/json")

    def _check_against_memory(self, request: ReceivedRequest) -> Refusal | None:
        if self._context_window is not None:
            tokens = len(request.raw) // 4
            if tokens > self._context_window:
                sentence = f"prompt is too long: {tokens} tokens > {self._context_window} maximum"
                return Refusal("R13", 400, "invalid_request_error", sentence)
        return self._thinking.check(request.body, request.headers.get("anthropic-beta", ""))

    def _take(self, request: ReceivedRequest) -> Answer:
        entry = self._answer or (self.script.pop(0) if self.script else None)
        if entry is None:
            sentence = f"the test server's script has run out at request {len(self.requests)}"
            return error(500, "api_error", sentence, headers={"x-should-retry": "false"})
        return entry(request) if callable(entry) else entry

    def _speak(self, request: ReceivedRequest, posted: ReceivedRequest, answer: Reply) -> RawAnswer:
        number = next(self._next)
        for block in answer.blocks:
            if block["type"] == "server_tool_use":
                assert runs(request.body, block["name"]), f"no {block['name']} was asked for"
        blocks = tuple(
            {**block, "id": block["id"] or f"toolu_{number:06}{at:02}"}
            if block["type"] == "tool_use"
            else block
            for at, block in enumerate(answer.blocks)
        )
        answer = replace(answer, blocks=blocks)
        message: Payload = {
            "id": f"msg_{number:06}",
            "type": "message",
            "role": "assistant",
            "model": answer.model or request.body["model"],
            "stop_sequence": None,
        }
        usage = self._usage(request, answer)
        if "compaction" in request.body:
            answer, usage = signed(request.body, answer, usage)
            blocks = answer.blocks
        if usage:
            message["usage"] = usage
        dropped = self._thinking.transformations(request.body)
        if dropped:
            message["input_transformations"] = dropped
            self.dropped_thinking += dropped
        if answer.fault is None:
            self._thinking.remember(request.body, list(blocks))
            self.threads.remember(posted.body, request.body, message["id"], list(blocks))
        headers = {
            "content-type": "text/event-stream; charset=utf-8",
            "request-id": f"req_{number:06}",
            **answer.headers,
        }
        steps = steps_of(answer, message, eager=eager_tools(request.body))
        return RawAnswer(200, headers, steps)

    def _usage(self, request: ReceivedRequest, answer: Reply) -> Payload:
        simulated = self._cache.usage(request.body)
        written = sum(len(json.dumps(block)) for block in answer.blocks)
        if answer.usage is None:
            return {**simulated, "output_tokens": 1, "_output_tokens": max(1, written // 4)}
        given = dict(answer.usage)
        return {"_output_tokens": given.get("output_tokens", 1), **given} if given else {}

    @property
    def connections_open(self) -> int:
        """How many connections are open."""
        return len(self._connections)

    def connected(self, connection: "_Connection") -> None:
        """Remember *connection*, to close it at the end."""
        self._connections.add(connection)
        self.connections_made += 1

    def disconnected(self, connection: "_Connection") -> None:
        """Forget *connection*."""
        self._connections.discard(connection)


class _Connection(asyncio.Protocol):
    """One client: parses requests one by one and plays the answers' steps."""

    def __init__(self, api: FakeMessagesApi) -> None:
        self._api = api
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self._current: ReceivedRequest | None = None
        self._sending: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._api.connected(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._api.disconnected(self)
        if self._current is not None:
            self._current.disconnected.set()
        if self._sending is not None:
            self._sending.cancel()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._current is None:
            self._parse()

    async def close(self) -> None:
        """Close at once, even during a response."""
        if self._transport is not None:
            self._transport.abort()
        if self._sending is not None:
            self._sending.cancel()
            with suppress(asyncio.CancelledError):
                await self._sending

    def _parse(self) -> None:
        end = self._buffer.find(_HEAD_END)
        if end < 0:
            return
        first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)
        }
        length = int(headers.get("content-length", "0"))
        begin = end + len(_HEAD_END)
        if len(self._buffer) < begin + length:
            return
        method, path, _version = first.split(" ")
        body = bytes(self._buffer[begin : begin + length])
        del self._buffer[: begin + length]
        self._current = ReceivedRequest(
            method, path, headers, body, _parsed(body), time.monotonic()
        )
        self._sending = asyncio.get_running_loop().create_task(self._respond(self._current))

    async def _respond(self, request: ReceivedRequest) -> None:
        assert self._transport is not None
        answer = self._api.answer_to(request)
        head = [f"HTTP/1.1 {answer.status} {'OK' if answer.status == 200 else 'Scripted'}"]
        head += [f"{name}: {value}" for name, value in answer.headers.items()]
        head += ["transfer-encoding: chunked", "", ""]
        steps = list(answer.steps)
        # Held before its first event, the server has not sent anything yet, not even its status.
        while steps and isinstance(steps[0], Gate):
            await self._play(steps.pop(0))
        self._transport.write("\r\n".join(head).encode())
        for step in steps:
            # A write to a client that has left fails, and asyncio warns of the fifth.
            if self._transport.is_closing() or not await self._play(step):
                return
        self._transport.write(b"0\r\n\r\n")
        request.answered.note()
        self._current = None
        self._parse()

    async def _play(self, step: bytes | Gate | str) -> bool:
        """Play one step; return False if it ended the connection."""
        assert self._transport is not None
        if isinstance(step, bytes):
            self._transport.write(b"%x\r\n%b\r\n" % (len(step), step))
            return True
        if isinstance(step, Gate):
            await step.wait()
            return True
        if step == Fault.RESET:
            connection: socket.socket = self._transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
            self._transport.abort()
        else:
            self._transport.write(b'ff\r\nevent: content_block_delta\ndata: {"type": "con')
            self._transport.close()
        return False


def _parsed(body: bytes) -> Payload:
    try:
        parsed = json.loads(body)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}
