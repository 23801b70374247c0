"""JSON-RPC 2.0 in both directions over a pair of streams: requests, responses, notifications.

It knows no methods. Requests run concurrently and start in the order they arrive; responses and
updates are sent in the order they were given to it.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol, TypeAlias

from agent_cli.acp import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    REQUEST_CANCELLED,
    ConnectionLost,
    LineBuffer,
    RpcFault,
    decode,
    encode,
)
from agent_cli.contracts.errors import AgentCliError, sentence_of
from agent_cli.contracts.timeline import Json
from agent_cli.system.logger import logger
from agent_cli.system.records import dataclass

Params: TypeAlias = dict[str, Json]
_Id: TypeAlias = str | int | float | None
CANCEL_REQUEST: Final = "$/cancel_request"

_log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a request; *then* is called after the result is queued for sending."""

    result: dict[str, Json]
    then: Callable[[], None] | None = None


Method: TypeAlias = Callable[[Params], Awaitable[Answer]]
Notified: TypeAlias = Callable[[Params], None]


class Streams(Protocol):
    """The two streams to the client."""

    async def read(self) -> bytes:
        """Return the next bytes; none at the end."""
        ...

    async def write(self, data: bytes) -> None:
        """Write all of *data*; raises OSError if the reader is gone."""
        ...


class RpcConnection:
    """The connection to one client. `serve` returns when the client is gone."""

    def __init__(
        self,
        streams: Streams,
        methods: Mapping[str, Method],
        notifications: Mapping[str, Notified],
    ) -> None:
        """Read nothing yet.

        Args:
            streams: The streams to the client.
            methods: Handlers of requests, by name. An exception becomes the error: an `RpcFault`
                as it is, an `AgentCliError` with its message.
            notifications: Handlers of notifications; they must not block or raise.
        """
        self._streams = streams
        self._methods = methods
        self._notifications = notifications
        self._outbox = WireOutbox(streams.write)
        self._asked: dict[int, asyncio.Future[Json]] = {}
        self._answering: dict[asyncio.Task[None], _Id] = {}
        self._last_id = 0
        self._is_lost = False

    async def serve(self) -> None:
        """Answer until the client closes its end, or stops reading ours."""
        async with asyncio.TaskGroup() as group:
            writing = group.create_task(self._write())
            reading = group.create_task(self._read(group))
            await asyncio.wait([writing, reading], return_when=asyncio.FIRST_COMPLETED)
            self._lose()
            for task in (reading, *self._answering):
                task.cancel()
            await self._outbox.close()
            writing.cancel()  # a client that neither reads nor leaves would block the last write

    async def request(self, method: str, params: Params) -> Json:
        """Ask the client and return its result.

        Raises:
            RpcFault: The client answered with an error.
            ConnectionLost: The client is gone.
        """
        if self._is_lost:
            raise ConnectionLost
        self._last_id += 1
        id = self._last_id
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._asked[id] = answer
        try:
            self._outbox.put({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
            return await answer
        finally:
            del self._asked[id]

    def notify(self, method: str, params: Params) -> None:
        """Send a notification; it may be merged with waiting notifications."""
        if not self._is_lost:
            self._outbox.put({"jsonrpc": "2.0", "method": method, "params": params})

    async def flushed(self) -> None:
        """Wait until everything queued so far has been written."""
        await self._outbox.flushed()

    async def _write(self) -> None:
        try:
            await self._outbox.run()
        except OSError as error:
            _log.info("the client reads no more", error=str(error))

    async def _read(self, group: asyncio.TaskGroup) -> None:
        lines = LineBuffer()
        while data := await self._streams.read():
            for line in lines.feed(data):
                self._take(line, group)
        for line in lines.feed(b"\n"):  # the last line may lack a newline
            self._take(line, group)
        # Let the last requests start before the connection ends; quick ones are still answered.
        await asyncio.sleep(0)

    def _take(self, line: bytes | None, group: asyncio.TaskGroup) -> None:
        if line is not None and not line.strip():
            return
        try:
            if line is None:
                raise RpcFault(PARSE_ERROR, "the line is too long")
            message = decode(line)
        except RpcFault as fault:
            self._respond(None, {"error": fault.to_json()})
            return
        if "method" not in message and self._settle(message):
            return
        id = message.get("id")
        if not isinstance(id, str | int | float):
            id = None
        try:
            method, params = _checked(message)
        except RpcFault as fault:
            self._respond(id, {"error": fault.to_json()})
            return
        if method == CANCEL_REQUEST and "id" not in message:
            self._cancel_request(params)
            return
        if "id" not in message:
            # Behind the first step of each request before it: a cancel must find its prompt.
            asyncio.get_running_loop().call_soon(self._hear, method, params)
            return
        task = group.create_task(self._answer(id, method, params))
        self._answering[task] = id
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        id = self._answering.pop(task)
        if task.cancelled():  # perhaps before it began
            self._respond(id, {"error": RpcFault(REQUEST_CANCELLED, "cancelled").to_json()})

    def _hear(self, method: str, params: Params) -> None:
        try:
            if heard := self._notifications.get(method):
                heard(params)
        except RpcFault as fault:  # a notification has no answer
            _log.info("notification dropped", method=method, reason=fault.message)

    async def _answer(self, id: _Id, method: str, params: Params) -> None:
        then: Callable[[], None] | None = None
        try:
            answered = await self._answered(method, params)
            response: dict[str, Json] = {"result": answered.result}
            then = answered.then
        except RpcFault as fault:
            response = {"error": fault.to_json()}
        except AgentCliError as error:
            response = {"error": RpcFault(INTERNAL_ERROR, str(error)).to_json()}
        except Exception as error:
            _log.error("request failed", method=method, exc_info=True)
            reason = f"{sentence_of(error)} (traceback in the log)"
            response = {"error": RpcFault(INTERNAL_ERROR, reason).to_json()}
        self._respond(id, response)
        if then:
            then()

    async def _answered(self, method: str, params: Params) -> Answer:
        if (answer := self._methods.get(method)) is None:
            raise RpcFault(METHOD_NOT_FOUND, f"there is no method {method!r}")
        return await answer(params)

    def _respond(self, id: _Id, response: dict[str, Json]) -> None:
        self._outbox.put({"jsonrpc": "2.0", "id": id, **response})

    def _settle(self, message: dict[str, Json]) -> bool:
        """Hand a response to the request that waits for it; return False if it is no response.

        A late response is ignored. One with neither a result nor an error is an error: it would be
        waited for without end.
        """
        id, error = message.get("id"), message.get("error")
        waiting = self._asked.get(id) if type(id) is int else None
        if waiting is None or waiting.done():
            return "result" in message or "error" in message
        if error is None and "result" in message:
            waiting.set_result(message["result"])
            return True
        details = error if isinstance(error, dict) else {}
        code = details.get("code")
        text = str(details.get("message") or "the client answered with an error")
        waiting.set_exception(RpcFault(code if isinstance(code, int) else INTERNAL_ERROR, text))
        return True

    def _cancel_request(self, params: Params) -> None:
        cancelled = params.get("requestId")
        for task in [task for task, id in self._answering.items() if id == cancelled]:
            task.cancel()

    def _lose(self) -> None:
        self._is_lost = True
        for waiting in self._asked.values():
            if not waiting.done():
                waiting.set_exception(ConnectionLost())


def _checked(message: dict[str, Json]) -> tuple[str, Params]:
    """Return the method and parameters of a request or notification.

    Raises:
        RpcFault: The message is neither.
    """
    method, params = message.get("method"), message.get("params")
    if message.get("jsonrpc") != "2.0":
        raise RpcFault(INVALID_REQUEST, '"jsonrpc" must be "2.0"')
    if not isinstance(method, str):
        raise RpcFault(INVALID_REQUEST, '"method" must be a text')
    if isinstance(message.get("id", 0), dict | list | bool):
        raise RpcFault(INVALID_REQUEST, '"id" must be a text or a number')
    if params is not None and not isinstance(params, dict):
        raise RpcFault(INVALID_PARAMS, '"params" must be an object')
    return method, params or {}


_CLOSE_LIMIT_S: Final = 1.0
_CHUNKS: Final = frozenset({"agent_message_chunk", "agent_thought_chunk"})
_BATCH_BYTES: Final = 256 * 1024
_PIECE_CHARS_MAX: Final = 16 * 1024


class WireOutbox:
    """Sends messages one after the other.

    A model may write faster than an editor reads. Waiting pieces of one text become one piece, and
    an update of a tool call's content replaces the one before it, so that the queue grows with the
    amount shown, not with the number of changes.
    """

    def __init__(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        self._write = write
        self._waiting: deque[dict[str, Json]] = deque()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._is_closed = False

    def put(self, message: dict[str, Json]) -> None:
        """Queue *message* behind the earlier messages."""
        if self._is_closed:
            return
        if not (self._waiting and _merged(self._waiting[-1], message)):
            self._waiting.append(message)
        self._idle.clear()
        self._wake.set()

    async def run(self) -> None:
        """Write until `close`.

        Raises:
            OSError: The reader is gone.
        """
        try:
            while not (self._is_closed and not self._waiting):
                await self._wake.wait()
                self._wake.clear()
                while self._waiting:
                    await self._write(self._batch())
                self._idle.set()
        finally:
            self._is_closed = True
            self._waiting.clear()
            self._idle.set()

    async def flushed(self) -> None:
        """Wait until nothing waits to be written."""
        await self._idle.wait()

    async def close(self) -> None:
        """Write the waiting messages within a short limit, then refuse more."""
        self._is_closed = True
        self._wake.set()
        try:
            async with asyncio.timeout(_CLOSE_LIMIT_S):
                await self._idle.wait()
        except TimeoutError:
            self._waiting.clear()

    def _batch(self) -> bytes:
        batch = bytearray()
        while self._waiting and len(batch) < _BATCH_BYTES:
            batch += encode(self._waiting.popleft())
        return bytes(batch)


def _merged(before: dict[str, Json], message: dict[str, Json]) -> bool:
    """Merge *message* into *before*, the message just before it, if that loses nothing."""
    match before, message:
        case (
            {"method": "session/update", "params": {"sessionId": one, "update": dict(last)}},
            {"method": "session/update", "params": {"sessionId": other, "update": dict(next)}},
        ) if one == other:
            return _is_joined(last, next)
        case _:
            return False


def _is_joined(last: dict[str, Json], next: dict[str, Json]) -> bool:
    kind = next.get("sessionUpdate")
    if kind != last.get("sessionUpdate"):
        return False
    if kind == "tool_call_update" and next.get("toolCallId") == last.get("toolCallId"):
        last.update(next)
        return True
    if kind not in _CHUNKS or next.get("messageId") != last.get("messageId"):
        return False
    match last["content"], next["content"]:
        case dict(begun), dict(more) if begun["type"] == more["type"] == "text":
            text = str(begun["text"])
            if len(text) < _PIECE_CHARS_MAX:  # each merge copies it
                begun["text"] = text + str(more["text"])
                return True
        case _:
            pass
    return False
