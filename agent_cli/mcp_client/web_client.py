"""The HTTP client of one server: a failed request becomes an error response to that request.

With the SDK's own client, one refused, broken or endless POST ends the whole connection and cancels
the task that owns it (modelcontextprotocol/python-sdk, issues 3522 and 3560), and the caller does
not get the HTTP status.
"""

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx2
from mcp.client.auth import OAuthFlowError
from mcp_types import RequestId

from agent_cli.mcp_client.config import ServerConfig
from agent_cli.mcp_client.event_streams import MendedStream
from agent_cli.mcp_client.mended_messages import answer_in
from agent_cli.mcp_client.reasons import (
    HTTP_REFUSED,
    NO_ANSWER,
    NO_SIGN_IN,
    NOT_ASKED,
    SESSION_LOST,
    SIGN_IN_FAILED,
    TOO_LONG,
    SignInUnavailable,
    error_line,
    failed_request,
    message_in,
    no_answer_line,
    refusal_line,
    rpc_error,
    shown_address,
)
from agent_cli.system.addresses import Resolve, are_inside, resolve
from agent_cli.system.http_requests import CheckedTransport, sent_host
from agent_cli.system.json_text import json_object, mend_surrogates

if TYPE_CHECKING:
    from httpx2._client import UseClientDefault  # named in a public signature, not exported
    from httpx2._types import AuthTypes


class Addresses:
    """The addresses to which one server may lead, by sign-in metadata and redirects.

    None is in a network that the server is not part of, and no rule of the user denies it.
    """

    def __init__(self, config: ServerConfig, resolve: Resolve = resolve) -> None:
        self._server = urlsplit(config.url).hostname or ""
        oauth = config.oauth
        named = (oauth.issuer, oauth.idp_token_endpoint)
        self._objection = config.host_objection
        self._named = {self._server, *(urlsplit(url).hostname for url in named)}
        self._resolve = resolve

    async def check(self, request: httpx2.Request) -> Sequence[str] | None:
        """Return the addresses to which *request* may go, None for any: the user named its host.

        Raises:
            OAuthFlowError: A rule denies the target, or it has no name, or the server is on the
                internet and the target is not.
        """
        host = sent_host(request.url)
        port = request.url.port or (80 if request.url.scheme == "http" else 443)
        if objection := self._objection(host.rstrip("."), port):
            raise OAuthFlowError(f"{self._server} leads to {host}: {objection}")
        if self._named & {host, request.url.host}:
            return None
        try:
            found = await self._resolve(host)
            if not are_inside(found):
                return found
        except UnicodeError as error:  # a label is empty or too long
            raise OAuthFlowError(f"{self._server} leads to {host}, which is no name") from error
        if not are_inside(await self._resolve(self._server)):
            raise OAuthFlowError(
                f"{self._server} leads to {host}, which is inside your own network; if that is"
                " where you sign in, set the server's oauth.issuer to it"
            )
        return found


# No read limit: a tool may be silent for long, and calls have a limit of their own.
_GOODBYE_S = 2.0
_STREAMS_AT_ONCE = 20
_STREAM_EVERY_S = 1.0
_TIMEOUT = httpx2.Timeout(30, read=None)
BODY_BYTES_MAX = 32 * 1024 * 1024
_SESSION_HEADER = "mcp-session-id"
# A restarted server of the TypeScript SDK answers an old session with 400 and one of these.
_ABOUT_SESSIONS = re.compile(r"session|not initialized", re.IGNORECASE)
_JSON = {"content-type": "application/json"}
# With these, a JSON-RPC error in the body is the server's answer; with others, a refusal.
_STATUSES_OF_ERRORS = (400, 404)


class AnswerTooLong(httpx2.ReadError):
    """An answer is longer than is read."""


class _Pace:
    """Limits how often streams are opened: 20 at once, then one each second.

    A server may end each stream at once and ask for the next without a pause; the SDK obeys.
    """

    def __init__(self) -> None:
        self._busy_until = 0.0

    async def wait(self) -> None:
        """Wait until one more stream may be opened."""
        now = asyncio.get_running_loop().time()
        idle_at = now - _STREAMS_AT_ONCE * _STREAM_EVERY_S
        self._busy_until = max(self._busy_until, idle_at) + _STREAM_EVERY_S
        await asyncio.sleep(max(self._busy_until - now, 0))


class CheckedAsyncClient(httpx2.AsyncClient):
    """An HTTP client whose requests, redirected ones too, go to addresses that were checked."""

    def __init__(
        self,
        addresses: Addresses,
        *,
        timeout: httpx2.Timeout | float,
        headers: Mapping[str, str] | None = None,
        sign_in: httpx2.Auth | None = None,
    ) -> None:
        super().__init__(
            headers=headers,
            timeout=timeout,
            auth=sign_in,
            transport=CheckedTransport(addresses.check),
        )


class SafeAsyncClient(CheckedAsyncClient):
    """An HTTP client that turns failures into error responses, so that they affect one call only.

    Attributes:
        is_connected: Whether the handshake is over; before that, a failure ends the attempt.
        is_answered_by_post: Whether a request is answered in the response to it.
        on_failure: Called when a message was not accepted, once connected.
        refused: The status with which the server refused the last message, or a request to receive
            messages; 401 and 403 ask for a sign-in.
        refusal: The server's message about it, shortened, or "".
    """

    def __init__(
        self, headers: Mapping[str, str], sign_in: httpx2.Auth | None, addresses: Addresses
    ) -> None:
        super().__init__(
            addresses,
            timeout=_TIMEOUT,
            # Streams are repaired as they arrive, which needs them uncompressed.
            headers={"accept-encoding": "identity", **headers},
            sign_in=sign_in,
        )
        self.is_connected = False
        self.is_answered_by_post = True
        self.on_failure: Callable[[], None] = lambda: None
        self.refused: int | None = None
        self.refusal = ""
        self._pace = _Pace()

    async def send(
        self,
        request: httpx2.Request,
        *,
        stream: bool = False,
        auth: "AuthTypes | UseClientDefault | None" = httpx2.USE_CLIENT_DEFAULT,
        follow_redirects: "bool | UseClientDefault" = httpx2.USE_CLIENT_DEFAULT,
    ) -> httpx2.Response:
        """Send *request*; once connected, turn a failure into a response with a JSON-RPC error."""
        if request.method == "GET":
            await self._pace.wait()
        # The end of a session is reported while others wait for that, so the report is limited.
        limit_s = _GOODBYE_S if request.method == "DELETE" else None
        try:
            async with asyncio.timeout(limit_s):
                response = await super().send(
                    request, stream=stream, auth=auth, follow_redirects=follow_redirects
                )
                return await self._readable(request, response)
        except (httpx2.RequestError, OAuthFlowError) as error:
            if not self.is_connected:
                raise
            self.on_failure()
            if isinstance(error, AnswerTooLong):
                return _answer(request, 502, TOO_LONG, str(error))
            if isinstance(error, SignInUnavailable):
                return _answer(request, 503, NOT_ASKED, str(error))
            if isinstance(error, OAuthFlowError):
                return _answer(request, 503, SIGN_IN_FAILED, error_line(error))
            where = shown_address(str(request.url))
            return _answer(request, 503, *failed_request(error, where))

    async def _readable(
        self, request: httpx2.Request, response: httpx2.Response
    ) -> httpx2.Response:
        """Return *response* in a form the SDK can read; a refusal has its status and reason."""
        status = response.status_code
        if request.method != "POST":
            if status in NO_SIGN_IN:
                message = message_in(response, await _body(response))
                self.refused, self.refusal = status, refusal_line(response, message)
                return response
            # Other statuses come from servers without a stream of server messages.
            return _mended_stream(response)
        if status < HTTPStatus.BAD_REQUEST:
            self.refused, self.refusal = None, ""
            if response.has_redirect_location or not self.is_answered_by_post:
                return response
            asked = await _asked(request)
            if _is_event_stream(response):
                return _mended_stream(response, asked)
            return await _answered(request, response, asked)
        body = await _body(response)
        if (json_object(body) or {}).keys() >= {"jsonrpc", "result"}:  # of a failed tool, perhaps
            self.refused, self.refusal = None, ""
            return _with_answer(request, response, body, await _asked(request))
        error, message = rpc_error(body), message_in(response, body)
        self.refused, self.refusal = status, refusal_line(response, message)
        if not self.is_connected:
            return _with_body(request, response, body)
        self.on_failure()
        if _is_session_loss(request, status, message):
            return _answer(request, status, SESSION_LOST, self.refusal)
        if error is not None and status in _STATUSES_OF_ERRORS:
            return _with_body(request, response, body)
        return _answer(request, status, HTTP_REFUSED, self.refusal, {"status": status})


def _is_event_stream(response: httpx2.Response) -> bool:
    return bool(response.headers.get("content-type", "").lower().startswith("text/event-stream"))


def _mended_stream(response: httpx2.Response, asked: RequestId | None = None) -> httpx2.Response:
    stream = response.stream
    if (
        _is_event_stream(response)
        and isinstance(stream, httpx2.AsyncByteStream)
        and not response.headers.get("content-encoding")
    ):
        response.stream = MendedStream(stream, asked)
    return response


async def _asked(request: httpx2.Request) -> RequestId | None:
    """Return the id of the request that *request* carries, None for a message of another kind."""
    # One that follows a redirect is not read yet.
    sent = json_object(await request.aread()) or {}
    id = sent.get("id") if "method" in sent else None
    return id if isinstance(id, int | str) else None


async def _body(response: httpx2.Response) -> bytes:
    """Return the body, lone surrogates replaced.

    Raises:
        AnswerTooLong: It is longer than 32 MB.
    """
    body = bytearray()
    try:
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > BODY_BYTES_MAX:
                limit = BODY_BYTES_MAX // 1024 // 1024
                raise AnswerTooLong(f"more than {limit} MB")
    finally:
        await response.aclose()
    return mend_surrogates(bytes(body))


async def _answered(
    request: httpx2.Request, response: httpx2.Response, asked: RequestId | None
) -> httpx2.Response:
    """Return *response* with the answer to *request* that its body has, or else with an error.

    Whatever its media type and formal faults are: the request has been executed.
    """
    return _with_answer(request, response, await _body(response), asked)


def _with_answer(
    request: httpx2.Request, response: httpx2.Response, body: bytes, asked: RequestId | None
) -> httpx2.Response:
    if asked is None:
        return _with_body(request, response, body)
    if (answer := answer_in(body, asked)) is None:
        return _answer(request, 502, NO_ANSWER, no_answer_line(response, body))
    response.status_code = HTTPStatus.OK
    response.headers["content-type"] = _JSON["content-type"]
    return _with_body(request, response, answer)


def _with_body(request: httpx2.Request, response: httpx2.Response, body: bytes) -> httpx2.Response:
    headers = {
        name: value
        for name, value in response.headers.items()
        if name not in ("content-encoding", "content-length", "transfer-encoding")
    }
    return httpx2.Response(response.status_code, headers=headers, content=body, request=request)


def _answer(
    request: httpx2.Request, status: int, code: int, message: str, data: object = None
) -> httpx2.Response:
    """Return a response with a JSON-RPC error of ours."""
    error = {"code": code, "message": message, "data": data}
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error})
    return httpx2.Response(status, request=request, headers=_JSON, content=body.encode())


def _is_session_loss(request: httpx2.Request, status: int, message: str) -> bool:
    """Return whether the server does not know the session of *request* any more.

    Source: MCP 2025-11-25, transports, session management: 404 asks for a new session. Servers of
    the TypeScript SDK that were restarted answer 400.
    """
    if _SESSION_HEADER not in request.headers:
        return False
    return status == HTTPStatus.NOT_FOUND or (
        status == HTTPStatus.BAD_REQUEST and bool(_ABOUT_SESSIONS.search(message))
    )
