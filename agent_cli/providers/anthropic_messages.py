"""The provider for every server that speaks the Messages API.

It knows what a stream of that API is and when a reply is complete. It does not import the SDK: that
costs over a second, so a thread does it (`preload`), once there is something on the screen.
"""

import asyncio
import gc
import json
import re
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import aclosing
from typing import TYPE_CHECKING

import structlog

from agent_cli.errors import ModelError
from agent_cli.provider import ModelRequest, ReplyEnd, StreamEvent
from agent_cli.providers.connection import Connection
from agent_cli.providers.failures import (
    CallFailed,
    Refusal,
    broken_off,
    not_the_api,
    refused,
)
from agent_cli.providers.reply_builder import BrokenReply, ReplyBuilder
from agent_cli.providers.retries import with_retries
from agent_cli.providers.retry_policy import RetryPolicy
from agent_cli.providers.sse import server_sent_events
from agent_cli.providers.wire import parameters
from agent_cli.timeline import Json

if TYPE_CHECKING:
    from agent_cli.providers.client import Client, OpenReply

# What a server may do without; named in its 400, the field is left out and the call made again.
OPTIONAL_FIELDS = {
    "thinking": "thinking",
    "output_config": "output_config",
    "temperature": "extra_body",
}
NO_STREAMS = ("text/html", "application/json")

_log = structlog.get_logger(__name__)


class AnthropicMessages:
    """Asks for replies over one connection, which is opened at the first request."""

    def __init__(
        self,
        connection: Connection | None = None,
        retry: RetryPolicy | None = None,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._connection = connection or Connection()
        self._retry = retry or RetryPolicy()
        self._sleep = sleep
        self._client: Future[Client] | None = None
        self._unwanted: set[str] = set()

    def preload(self) -> None:
        """Begin to load the SDK in a thread; the first request waits for what is left of it."""
        if self._client is not None:
            return
        self._client = Future()
        # A daemon, so that leaving the program at once does not wait for an import.
        threading.Thread(
            target=_load, args=(self._connection, self._client), name="load sdk", daemon=True
        ).start()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        """Ask for one reply; see `provider.Provider`.

        Raises:
            ModelError: No reply could be had; the text says what to do.
        """
        client = await self._loaded()

        def attempt() -> AsyncGenerator[StreamEvent, None]:
            return self._attempt(client, request)

        async with aclosing(with_retries(attempt, self._retry, sleep=self._sleep)) as events:
            async for event in events:
                yield event

    async def aclose(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await (await self._loaded()).aclose()

    async def _loaded(self) -> "Client":
        self.preload()
        assert self._client is not None
        return await asyncio.wrap_future(self._client)

    async def _attempt(
        self, client: "Client", request: ModelRequest
    ) -> AsyncGenerator[StreamEvent, None]:
        """Make the call, again without each optional field that a compatible server refuses."""
        sent = parameters(request, compat=self._connection.compat)
        while True:
            for name in self._unwanted:
                sent.pop(name, None)
            try:
                async with aclosing(_call(client, sent, request)) as events:
                    async for event in events:
                        yield event
                return
            except CallFailed as failed:
                unwanted = self._refused_field(failed, sent)
                if unwanted is None:
                    raise
            self._unwanted.add(unwanted)

    def _refused_field(self, failed: CallFailed, sent: dict[str, Json]) -> str | None:
        if not self._connection.compat or failed.error.status != 400:
            return None
        fields = OPTIONAL_FIELDS.items()
        named = (key for name, key in fields if re.search(rf"\b{name}\b", str(failed)))
        return next((key for key in named if key in sent), None)


async def _call(
    client: "Client", sent: dict[str, Json], request: ModelRequest
) -> AsyncGenerator[StreamEvent, None]:
    """Make one call.

    Raises:
        CallFailed: It brought no complete reply.
    """
    async with client.post(sent, api_key=request.api_key) as opened:
        if opened.content_type.startswith(NO_STREAMS):
            raise not_the_api(client.base_url, opened.content_type)
        builder = ReplyBuilder(request.model.id, opened.request_id)
        async with aclosing(_payloads(opened)) as payloads:
            async for payload in payloads:
                for event in _fed(builder, payload, opened):
                    yield event
                if payload.get("type") == "message_stop":
                    break
            else:
                if not builder.begun:
                    raise not_the_api(client.base_url, "no events")
        if not builder.complete:
            raise broken_off("the reply ended before it was complete", opened.request_id)
        await opened.finish()
    reply = builder.reply()
    _log.info(
        "model replied",
        session_id=request.session_id,
        request_id=reply.request_id,
        model=reply.model,
        stop_reason=reply.stop_reason,
        prompt_tokens=reply.usage.prompt_tokens,
        cache_read_tokens=reply.usage.cache_read_tokens,
        output_tokens=reply.usage.output_tokens,
    )
    yield ReplyEnd(reply)


def _fed(
    builder: ReplyBuilder, payload: Mapping[str, Json], opened: "OpenReply"
) -> Iterator[StreamEvent]:
    try:
        yield from builder.feed(payload)
    except BrokenReply as error:
        raise broken_off(f"the reply was garbled: {error}", opened.request_id) from error


async def _payloads(opened: "OpenReply") -> AsyncGenerator[Mapping[str, Json], None]:
    """Yield the JSON of each event; an `error` event ends the call."""
    try:
        async for event in server_sent_events(opened.chunks):
            if event.name == "error":
                raise _error_in_stream(event.data, opened.request_id)
            if event.data == "[DONE]":  # how gateways to other APIs end a stream
                continue
            payload: Json = json.loads(event.data)
            if not isinstance(payload, dict):
                raise broken_off("the reply was garbled: an event is no object", opened.request_id)
            if payload.get("type") == "error":
                raise _error_in_stream(event.data, opened.request_id)
            yield payload
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise broken_off(f"the reply was garbled: {error}", opened.request_id) from error


def _error_in_stream(data: str, request_id: str | None) -> CallFailed:
    try:
        parsed: Json = json.loads(data)
    except json.JSONDecodeError:
        parsed = None
    match parsed:
        case {"error": {"type": str() as kind, "message": str() as message}}:
            refusal = Refusal(status=200, message=message, kind=kind, request_id=request_id)
        case _:
            refusal = Refusal(status=200, message=data, request_id=request_id)
    return refused(refusal)


def _load(connection: Connection, loaded: "Future[Client]") -> None:
    """Import the SDK and build the client, without garbage collections in between.

    Importing makes three thousand modules' worth of objects that live for ever; collecting among
    them costs a quarter of the time and holds up the event loop.
    """
    loaded.set_running_or_notify_cancel()
    collecting = gc.isenabled()
    gc.disable()
    try:
        from agent_cli.providers.client import Client  # noqa: PLC0415 - what the thread is for

        loaded.set_result(Client(connection))
    except (ImportError, ModelError) as error:
        loaded.set_exception(error)
    finally:
        gc.freeze()
        if collecting:
            gc.enable()
        if not loaded.done():
            loaded.set_exception(ModelError("the model's SDK could not be loaded; see the log"))
