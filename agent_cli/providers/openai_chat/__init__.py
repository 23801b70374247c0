"""The Chat Completions API: OpenAI's server, and the many that copy it, also on this machine."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from functools import partial
from itertools import chain, takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from agent_cli.contracts.errors import CHECK_OPENAI_KEY
from agent_cli.contracts.options import READ_TIMEOUT_S, STALL_TIMEOUT_S
from agent_cli.contracts.provider import Model, ModelRequest, Price, StreamEvent
from agent_cli.contracts.timeline import Json
from agent_cli.providers.arrivals import ProgressLimit
from agent_cli.providers.encoding import encoded
from agent_cli.providers.failures import (
    NO_STREAMS,
    BrokenReply,
    CallFailed,
    Refusal,
    Remedies,
    broken_off,
    checked_key,
    not_the_api,
    refused,
    without_password,
)
from agent_cli.providers.openai_chat.wire import ChatReply, body
from agent_cli.providers.retries import RetryPolicy, with_retries
from agent_cli.system.event_loop import closed_with_loop
from agent_cli.system.json_text import json_object
from agent_cli.system.records import dataclass, field
from agent_cli.system.shared_pauses import SharedPause
from agent_cli.version import __version__

if TYPE_CHECKING:
    import httpx2

    from agent_cli.providers.events import ServerSentEvent
    from agent_cli.providers.transport import OpenReply

DEFAULT_BASE_URL = "https://api.openai.com/v1"
API = "openai-chat"
"""Key of the provider registry."""

REMEDIES = Remedies(
    rejected="API key rejected",
    sign_in=CHECK_OPENAI_KEY,
    forbidden="the API key has no permission for this",
    permission="check its project and limits",
    unknown_model="check the model id and OPENAI_BASE_URL",
    address="OPENAI_BASE_URL",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatConnection:
    """A server of the Chat Completions API.

    Attributes:
        base_url: With its version, such as `http://localhost:11434/v1`; None means OpenAI's own.
        api_key: None sends no key: servers on one's own machine need none.
        read_timeout_s: Longest silence in a reply.
        stall_timeout_s: Longest time without a piece of the reply.
        record: Write the replies' bytes here.
        replay: Play a recording instead of asking a server.
        replay_pace: Factor for the recorded pauses; 0 plays without pauses.
        redact: Removes secrets from server text before it is shown or recorded.
        price: Returns the cost of a reply.
        on_sent: Called after a request was sent, or could not be sent; must not raise.
    """

    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    read_timeout_s: float = READ_TIMEOUT_S
    stall_timeout_s: float = STALL_TIMEOUT_S
    record: Path | None = None
    replay: Path | None = None
    replay_pace: float = 0.0
    redact: Callable[[str], str] = str
    price: Price = lambda _model, _usage: None
    on_sent: Callable[[], None] = lambda: None

    @property
    def address(self) -> str:
        """The base URL without slashes at its end."""
        return (self.base_url or DEFAULT_BASE_URL).strip().rstrip("/")

    @property
    def endpoint(self) -> str:
        """The URL to post to; a query, such as a version's, stays at its end."""
        base, mark, query = self.address.partition("?")
        return f"{base.rstrip('/')}/chat/completions{mark}{query}"

    @property
    def is_openai(self) -> bool:
        """Whether the server is OpenAI's own, which renamed a parameter that others keep."""
        return self.address == DEFAULT_BASE_URL


def bearer(key: str | None) -> dict[str, str]:
    """Return the header for *key*; none without one.

    Raises:
        CallFailed: It is not valid in a header.
    """
    if not key or key.isspace():
        return {}
    return {"authorization": f"Bearer {checked_key(key, 'OPENAI_API_KEY')}"}


_API = "the Chat Completions API"
_DONE = "[DONE]"
_MESSAGE_CHARS_MAX = 10_000


class OpenAIChat:
    """Streams replies; each event loop that asks has its own connections, which end with it."""

    def __init__(
        self,
        connection: ChatConnection | None = None,
        retry: RetryPolicy | None = None,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        shared: SharedPause | None = None,
    ) -> None:
        self._connection = connection or ChatConnection()
        self._retry = retry or RetryPolicy()
        self._sleep = sleep
        self._shared = shared
        self._pools: dict[asyncio.AbstractEventLoop, _Pool] = {}

    def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        """Stream one reply; see `provider.Provider`.

        Raises:
            ModelError: There was no complete reply; the message says what to do.
        """
        attempt = partial(self._attempt, request)
        retry = self._retry.within(request.max_retry_delay_ms)
        return with_retries(attempt, retry, sleep=self._sleep, shared=self._shared)

    def preload(self) -> None:
        """Load nothing: the client has no package of its own."""

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """Return None: this API does not count prompts."""
        del request
        return None

    def states_effort(self, model: Model) -> bool:
        """Return False: the effort stands beside the messages."""
        del model
        return False

    def lacking(self, model: Model) -> str:
        """Return "": nothing is left out for a time."""
        del model
        return ""

    async def aclose(self) -> None:
        """Close the running loop's connections; the next request opens others."""
        if pool := self._pools.pop(asyncio.get_running_loop(), None):
            await pool.closing.aclose()

    async def _http(self) -> "httpx2.AsyncClient":
        """Return the running loop's connections."""
        loop = asyncio.get_running_loop()
        for other in [each for each in tuple(self._pools) if each.is_closed()]:
            self._pools.pop(other, None)
        if loop not in self._pools:
            from agent_cli.providers.transport import http_client  # as below

            http = http_client(self._connection, self._connection.endpoint)
            self._pools[loop] = _Pool(http, await closed_with_loop(http))
        return self._pools[loop].http

    async def _attempt(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        where = self._connection
        shown = without_password(where.address)
        limit = ProgressLimit(where.stall_timeout_s, shown)
        async with AsyncExitStack() as stack:
            with limit:
                posted = _posted(await self._http(), request, where, shown)
                opened = await stack.enter_async_context(posted)
            from agent_cli.providers.events import joined, reply_end  # request is sent

            building = ChatReply(request.model.id, opened.request_id, where.price)
            try:
                async with aclosing(_chunks(opened, limit, building, shown)) as arriving:
                    async for chunks in arriving:
                        for event in joined(chain.from_iterable(map(building.feed, chunks))):
                            yield event
            except BrokenReply as error:
                raise broken_off(f"the reply was garbled: {error}", opened.request_id) from error
            if not building.begun:
                raise not_the_api(shown, "no events", REMEDIES.address, _API)
            if building.fault:
                what = f'the server ended the reply with "{building.fault}"'
                raise broken_off(what, opened.request_id, suspect="that server")
            if not building.complete:
                raise broken_off("the reply ended before it was complete", opened.request_id)
            for event in building.end():
                yield event
            await opened.finish()
        yield reply_end(building.reply(), request.session_id)


@dataclass(frozen=True, slots=True)
class _Pool:
    """The connections of one event loop; `closing` closes them with it."""

    http: "httpx2.AsyncClient"
    closing: AsyncGenerator[None]


@asynccontextmanager
async def _posted(
    http: "httpx2.AsyncClient", request: ModelRequest, where: ChatConnection, shown: str
) -> AsyncGenerator["OpenReply"]:
    from agent_cli.providers.transport import (  # loads the HTTP library
        Address,
        open_reply,
    )

    headers = {
        "accept": "text/event-stream",
        "content-type": "application/json",
        "user-agent": f"agent-cli/{__version__}",
        **bearer(request.api_key or where.api_key),
    }
    address = Address(
        url=where.endpoint,
        shown=shown,
        variable=REMEDIES.address,
        request_id="x-request-id",
    )
    async with open_reply(
        http,
        address,
        where,
        headers=headers,
        body=encoded(body(request, is_openai=where.is_openai)),
        refusal=lambda response: _refusal(response, request, where),
        on_sent=where.on_sent,
    ) as opened:
        yield opened


async def _chunks(
    opened: "OpenReply", limit: ProgressLimit, building: ChatReply, shown: str
) -> AsyncGenerator[Iterator[Mapping[str, Json]], None]:
    """Yield the chunks of a reply that came together; an error among them ends the call.

    Not every server sends the end marker: a complete reply is kept, however its stream ends. Some
    gateways cannot stream: their whole reply is one chunk.
    """
    if opened.content_type.startswith(NO_STREAMS):
        begun = await opened.beginning()
        whole = json_object(begun)
        if whole is None or not whole.get("choices"):
            error = opened.error_in(begun)
            raise not_the_api(shown, opened.content_type, REMEDIES.address, _API, error=error)
        yield iter([whole])
        return
    import httpx2  # request is sent

    from agent_cli.providers.events import events  # as above

    async with aclosing(events(opened, limit)) as arriving:
        try:
            async for batch in arriving:
                ours = [*takewhile(lambda event: event.data.strip() != _DONE, batch)]
                yield _parsed(ours, opened, limit)
                if len(ours) < len(batch):
                    building.close()
                    return
                if building.has_all:
                    return
        except (httpx2.RequestError, CallFailed, BrokenReply):
            if not building.complete:
                raise


def _parsed(
    batch: Iterable["ServerSentEvent"], opened: "OpenReply", limit: ProgressLimit
) -> Iterator[Mapping[str, Json]]:
    for event in batch:
        try:
            chunk: Json = json.loads(event.data)
        except (ValueError, RecursionError) as error:
            raise BrokenReply(str(error)) from error
        if not isinstance(chunk, dict):
            raise BrokenReply("an event is not an object")
        if fault := chunk.get("error") or (chunk.get("object") == "error" and chunk):
            kind, code, message = _error_parts(chunk, opened.redact(event.data))
            raise refused(
                Refusal(
                    status=200,
                    message=opened.redact(message),
                    remedies=REMEDIES,
                    kind=_kind_in_stream(fault, kind),
                    code=code,
                    request_id=opened.request_id,
                )
            )
        limit.restart()
        yield chunk


def _refusal(
    response: "httpx2.Response", request: ModelRequest, where: ChatConnection
) -> CallFailed:
    text = response.text or f"status {response.status_code}"
    listed = response.content.strip().removeprefix(b"[").removesuffix(b"]")  # as Gemini sends it
    kind, code, message = _error_parts(json_object(listed), text)
    refusal = Refusal(
        status=response.status_code,
        message=where.redact(message[:_MESSAGE_CHARS_MAX]),
        remedies=REMEDIES,
        kind=kind,
        code=code,
        request_id=response.headers.get("x-request-id"),
        model_id=request.model.id,
        headers=response.headers,
    )
    return refused(refusal)


def _kind_in_stream(error: Json, kind: str | None) -> str | None:
    """Return the kind by the status in the code of *error*, else *kind*: types differ by server.

    vLLM sends "InternalServerError" and 500, gateways types of their own and 429.
    """
    code = str(error.get("code")) if isinstance(error, dict) else ""
    match int(code) if len(code) == 3 and code.isdecimal() else 0:
        case 429:
            return "rate_limit_error"
        case 408:
            return "timeout_error"
        case status if status >= 500:
            return "server_error"
        case _:
            return kind


def _error_parts(answer: Json, text: str) -> tuple[str | None, str | None, str]:
    """Return type, code and message of an error; some servers leave out a part.

    vLLM, Mistral and Cerebras send the parts without the object around them.
    """
    match (answer.get("error") or answer) if isinstance(answer, dict) else None:
        case {"message": str() as message, **rest}:
            kind, code = rest.get("type"), rest.get("code")
            known = kind if isinstance(kind, str) else None
            about = rest.get("metadata")
            if isinstance(about, dict) and isinstance(said := about.get("raw"), str):
                message = f"{message}: {said}"  # OpenRouter: the words of the provider
            return known, code if isinstance(code, str) else None, message
        case str() as message:
            return None, None, message
        case _:
            return None, None, text
