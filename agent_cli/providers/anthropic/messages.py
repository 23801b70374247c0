"""The provider for every server that speaks the Messages API.

It parses the API's stream and knows when a reply is complete.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from agent_cli.contracts.errors import ModelError
from agent_cli.contracts.options import require
from agent_cli.contracts.provider import Model, ModelRequest, ReplyEnd, StreamEvent
from agent_cli.contracts.timeline import Json
from agent_cli.providers.anthropic.betas import MESSAGE_EFFORT, MESSAGE_THREADS
from agent_cli.providers.anthropic.connection import Connection
from agent_cli.providers.anthropic.loop_clients import Client, LoopClients
from agent_cli.providers.anthropic.message_threads import MessageThreads
from agent_cli.providers.anthropic.models import standard_id
from agent_cli.providers.anthropic.platforms import ANTHROPIC
from agent_cli.providers.anthropic.refused_parts import RefusedParts
from agent_cli.providers.anthropic.wire import counted
from agent_cli.providers.arrivals import ProgressLimit
from agent_cli.providers.failures import (
    NO_STREAMS,
    BrokenReply,
    CallFailed,
    Refusal,
    broken_off,
    not_the_api,
    refused,
)
from agent_cli.providers.retries import RetryPolicy, with_retries
from agent_cli.system.json_text import json_object
from agent_cli.system.logger import logger
from agent_cli.system.shared_pauses import SharedPause

if TYPE_CHECKING:
    from agent_cli.providers.anthropic.reply_builder import ReplyBuilder
    from agent_cli.providers.events import ServerSentEvent
    from agent_cli.providers.transport import OpenReply

_PROGRESS = ("message_start", "message_delta", "message_stop")
COUNT_LIMIT_S = 10.0
_API = "the Messages API"

_log = logger(__name__)


class AnthropicMessages:
    """Streams replies over connections that are kept for the next request.

    Any number of event loops and threads may share it; each loop has its own connections, opened
    with its first request and closed when `asyncio.run` ends, or by `aclose`.
    """

    def __init__(
        self,
        connection: Connection | None = None,
        retry: RetryPolicy | None = None,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        shared: SharedPause | None = None,
    ) -> None:
        """Connect to nothing yet.

        Args:
            connection: None is Anthropic's own server, with the environment's key.
            retry: None retries as the settings do by default.
            sleep: Waits before a retry.
            shared: Pauses together with other processes; None for none.
        """
        require(connection, Connection, type(None), what="connection")
        require(retry, RetryPolicy, type(None), what="retry")
        self._connection = connection or Connection()
        self._retry = retry or RetryPolicy()
        self._sleep = sleep
        self._shared = shared
        self._clients = LoopClients(self._connection)
        self._refused = RefusedParts(self._connection)
        self._threads = MessageThreads(self._connection)
        self._count_hung = False

    def preload(self) -> None:
        """Begin to load the client in a thread; the first request waits until it is loaded."""
        self._clients.preload()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        """Stream one reply; see `provider.Provider`.

        Raises:
            ModelError: There was no complete reply; the message says what to do.
        """
        await self._clients.get()  # if there is no client, no retry helps
        attempt = partial(self._attempt, request)
        retry = self._retry.within(request.max_retry_delay_ms)
        async with aclosing(
            with_retries(attempt, retry, sleep=self._sleep, shared=self._shared)
        ) as events:
            async for event in events:
                yield event

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """Return the API's estimate of the tokens of the prompt, which is free; None without one.

        Servers other than Anthropic's are not asked: their counts are no bound of what they bill.
        One whose answer once took too long is not asked again: each call would wait as long.
        """
        where = self._connection
        if self._count_hung or where.compat or where.record is not None or where.replay is not None:
            return None
        try:
            client = await self._clients.get()
            async with asyncio.timeout(COUNT_LIMIT_S):
                sent = counted(self._refused.parameters(request))
                return await client.count_tokens(sent, api_key=request.api_key)
        except TimeoutError:
            self._count_hung = True
            _log.info("tokens not counted", reason=f"no answer within {COUNT_LIMIT_S:g} s")
        except (CallFailed, ModelError) as failed:
            _log.info("tokens not counted", reason=str(failed))
        return None

    def states_effort(self, model: Model) -> bool:
        """Return whether *model* reads a change of the effort in a message, behind its cache."""
        return self._refused.takes(MESSAGE_EFFORT, model)

    def lacking(self, model: Model) -> str:
        """Return what requests for *model* do without now, as a sentence; "" if nothing."""
        return self._refused.lacking(model)

    async def aclose(self) -> None:
        """Close the running event loop's connections, if any; the next request opens new ones."""
        await self._clients.aclose()

    async def _attempt(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        """Make the call; repeat it without the parts that the server refuses."""
        sent = self._refused.parameters(request)
        tries = 0
        while True:
            client = await self._clients.get()  # another one, if that was closed meanwhile
            posted = self._posted(request, sent, client.base_url)
            try:
                async with aclosing(_call(client, posted, request, self._connection)) as events:
                    async for event in events:
                        if isinstance(event, ReplyEnd):
                            self._threads.note(request, sent, posted, event.reply)
                        yield event
                return
            except CallFailed as failed:
                if self._threads.is_sent_again(posted, failed):
                    continue
                again = self._refused.retry(request, sent, failed, tries=tries)
                if again is None:
                    raise
            request, tries = again, tries + 1
            sent = self._refused.parameters(request)

    def _posted(
        self, request: ModelRequest, sent: dict[str, Json], address: str
    ) -> dict[str, Json]:
        """Return *sent* as a part of a thread, where the server has these."""
        can_hold = self._refused.takes(MESSAGE_THREADS, request.model)
        return self._threads.shortened(request, sent, address=address) if can_hold else sent


async def _call(
    client: Client, sent: dict[str, Json], request: ModelRequest, connection: Connection
) -> AsyncGenerator[StreamEvent, None]:
    """Make one call.

    Raises:
        CallFailed: There was no complete reply.
    """
    limit = ProgressLimit(connection.stall_timeout_s, client.base_url)
    address = connection.platform.remedies.address
    async with AsyncExitStack() as stack:
        try:
            with limit:
                posting = client.post(sent, api_key=request.api_key)
                opened = await stack.enter_async_context(posting)
        finally:
            connection.on_sent()  # the SDK does not document when
        if opened.content_type.startswith(NO_STREAMS):
            found, error = opened.content_type, await opened.error()
            raise not_the_api(client.base_url, found, address, _API, error=error)
        # The request is sent.
        from agent_cli.providers.anthropic.reply_builder import ReplyBuilder
        from agent_cli.providers.events import joined, reply_end

        builder = ReplyBuilder(
            _id_asked(request, sent),
            opened.request_id,
            connection.price,
            is_placed="inference_geo" in sent,
        )
        try:
            async with aclosing(_payloads(opened, limit)) as arriving:
                async for payloads in arriving:
                    for event in joined(_built(builder, payloads)):
                        yield event
                    if builder.ended:
                        break
        except BrokenReply as error:
            raise broken_off(f"the reply was garbled: {error}", opened.request_id) from error
        if not (builder.begun or builder.ended):
            raise not_the_api(client.base_url, "no events", address, _API)
        if not builder.complete:
            raise broken_off("the reply ended before it was complete", opened.request_id)
        await opened.finish()
    yield reply_end(builder.reply(), request.session_id)


def _id_asked(request: ModelRequest, sent: Mapping[str, Json]) -> str:
    """Return the id of the model that *sent* asks: not of fast mode, if a server refused that."""
    standard = standard_id(request.model.id)
    return standard if sent["model"] == standard and "speed" not in sent else request.model.id


def _built(
    builder: "ReplyBuilder", payloads: Iterable[Mapping[str, Json]]
) -> Iterator[StreamEvent]:
    for payload in payloads:
        yield from builder.feed(payload)
        if builder.ended:
            return


async def _payloads(
    opened: "OpenReply", limit: ProgressLimit
) -> AsyncGenerator[Iterator[Mapping[str, Json]], None]:
    """Yield the JSON of the events that came together; an `error` event ends the call."""
    from agent_cli.providers.events import events  # request is sent

    async with aclosing(events(opened, limit)) as arriving:
        async for batch in arriving:
            yield _parsed(batch, opened, limit)


def _parsed(
    batch: Iterable["ServerSentEvent"], opened: "OpenReply", limit: ProgressLimit
) -> Iterator[Mapping[str, Json]]:
    for event in batch:
        try:
            payload = _payload(event, opened)
        except (ValueError, RecursionError) as error:  # not JSON, or a very long number
            raise BrokenReply(str(error)) from error
        kind = str(payload.get("type"))
        if kind.startswith("content_block_") or kind in _PROGRESS:
            limit.restart()
        yield payload


def _payload(event: "ServerSentEvent", opened: "OpenReply") -> Mapping[str, Json]:
    if event.name == "error":
        raise _error_in_stream(opened.redact(event.data), opened.request_id)
    payload: Json = json.loads(event.data)
    if not isinstance(payload, dict):
        raise BrokenReply("an event is not an object")
    if payload.get("type") == "error":
        raise _error_in_stream(opened.redact(event.data), opened.request_id)
    return payload


def _error_in_stream(data: str, request_id: str | None) -> CallFailed:
    match json_object(data):
        case {"error": {"type": str() as kind, "message": str() as message}}:
            refusal = Refusal(status=200, message=message, remedies=ANTHROPIC.remedies, kind=kind)
        case _:
            refusal = Refusal(status=200, message=data, remedies=ANTHROPIC.remedies)
    return refused(replace(refusal, request_id=request_id))
