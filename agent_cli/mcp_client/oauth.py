"""Sign in to HTTP servers: the SDK's flow with our storage, listener and user dialog.

A sign-in page is shown only if the user asked for it (`Host.visit`). Otherwise stored tokens are
used and refreshed, and a server that needs a sign-in is reported.
"""

import asyncio
import contextlib
import os
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NoReturn
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthFlowError
from mcp.client.auth.extensions.client_credentials import SignedJWTParameters
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
)
from mcp.shared.exceptions import MCPDeprecationWarning
from pydantic import AnyUrl

from agent_cli.mcp_client.config import OAuth, ServerConfig
from agent_cli.mcp_client.dpop import BoundTokens
from agent_cli.mcp_client.flows import (
    AssertionFlow,
    BrowserFlow,
    ConcurrentFlow,
    KeyFlow,
    SecretFlow,
    enterprise_assertion,
    workload_assertion,
)
from agent_cli.mcp_client.host import Host, Visit
from agent_cli.mcp_client.limits import SilenceLimits
from agent_cli.mcp_client.reasons import SignInUnavailable, error_line
from agent_cli.mcp_client.renewal import EXCHANGE_LIMIT_S, Exchange, Renewal
from agent_cli.mcp_client.token_storage import Storage
from agent_cli.mcp_client.web_client import Addresses, CheckedAsyncClient

_SIGN_IN_LIMIT_S = 600.0
_NOWHERE = "http://localhost/callback"


class SignInNeeded(OAuthFlowError):
    """The server requires a sign-in, and no user can do it now."""


@asynccontextmanager
async def authorization(
    config: ServerConfig, host: Host, silence_limits: SilenceLimits
) -> AsyncGenerator[httpx2.Auth | None]:
    """Yield the authentication of requests to the server; None if there is none and no user.

    A configured Authorization header is used as it is, whatever the server says.
    """
    oauth = config.oauth
    if any(name.lower() == "authorization" for name in config.headers):
        yield None
        return
    storage = await Storage.load(config.url, host.credentials)

    async with AsyncExitStack() as stack:
        if oauth.grant != "browser":
            flow: ConcurrentFlow = _machine_flow(config, storage)
        elif host.visit is not None:
            port = oauth.callback_port or urlsplit(storage.record.redirect_uri).port or 0
            must_be = bool(oauth.callback_port)
            loopback = await stack.enter_async_context(listening(port, must_be=must_be))
            storage.use_redirect(loopback.redirect_uri)
            person = _Person(host.visit, loopback, silence_limits)
            flow = _browser_flow(config.url, oauth, storage, person.visit, person.came_back)
            # A message over SSE has no answer of its own that the sign-in could come before.
            flow.is_asked_for = config.transport == "http"
        elif storage.record.tokens is not None:
            flow = _browser_flow(config.url, oauth, storage, _nobody, _nobody)
            flow.is_attended = False
        else:
            yield None
            return
        flow.scopes = " ".join(oauth.scopes)
        if oauth.resource is not None:
            flow.use_resource(oauth.resource)
        flow.storage = storage
        storage.attach(flow)
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        exchange = _exchange(storage, Addresses(config))
        flow.renewal = Renewal(storage, flow, exchange, tasks)
        yield BoundTokens(flow, storage.record)


def _exchange(storage: Storage, addresses: Addresses) -> Exchange:
    """Return a function that sends a request for tokens over a separate connection."""

    async def send(request: httpx2.Request) -> httpx2.Response:
        bound = BoundTokens(httpx2.Auth(), storage.record)
        async with CheckedAsyncClient(addresses, timeout=EXCHANGE_LIMIT_S) as client:
            return await client.send(request, auth=bound)

    return send


_PATH = "/callback"
_LINE_LIMIT_S = 10.0
_PAGE = "<!doctype html><title>agent-cli</title><p>{text} You can close this page."
_RESPONSE = (
    "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\n"
    "Content-Length: {length}\r\nConnection: close\r\n\r\n"
)


class Loopback:
    """A listener that takes the URL of the first request with a code or an error, and our state.

    The state shows that the request belongs to the sign-in: any page can send the browser here.

    Attributes:
        redirect_uri: The redirect URI to register with the authorization server.
    """

    def __init__(self, port: int) -> None:
        # Servers that compare redirect URIs exactly list "localhost", not 127.0.0.1.
        self.redirect_uri = f"http://localhost:{port}{_PATH}"
        self._arrived: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._state: list[str] | None = None

    async def address_after(self, url: str, visit: Visit) -> str:
        """Send the user to *url*; return the URL that the browser requested or the user pasted."""
        if self._arrived.done():
            self._arrived = asyncio.get_running_loop().create_future()
        self._state = parse_qs(urlsplit(url).query).get("state")
        async with asyncio.TaskGroup() as group:
            visiting = group.create_task(self._visit(url, visit))
            address = await self._arrived
            visiting.cancel()
        return address

    async def _visit(self, url: str, visit: Visit) -> None:
        pasted = await visit(url)
        if pasted and not self._arrived.done():
            self._arrived.set_result(pasted)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request; every path but the redirect's is "not found"."""
        with contextlib.suppress(TimeoutError, ValueError, ConnectionError):
            async with asyncio.timeout(_LINE_LIMIT_S):
                words = (await reader.readline()).decode(errors="replace").split()
                while (await reader.readline()).strip():
                    pass
            target = words[1] if len(words) > 1 and words[0] == "GET" else ""
            parts = urlsplit(target)
            query = parse_qs(parts.query)
            is_ours = parts.path == _PATH and query.get("state") == self._state
            expected = is_ours and ("code" in query or "error" in query)
            if expected and not self._arrived.done():
                self._arrived.set_result(f"http://localhost{target}")
            text = "The sign-in goes on in the terminal." if expected else "There is nothing here."
            body = _PAGE.format(text=text).encode()
            status = "200 OK" if expected else "404 Not Found"
            writer.write(_RESPONSE.format(status=status, length=len(body)).encode() + body)
            await writer.drain()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


@asynccontextmanager
async def listening(port: int, *, must_be: bool = False) -> AsyncGenerator[Loopback]:
    """Listen while the body runs, on *port* if it is free, else on any (0: any).

    Raises:
        SignInUnavailable: It *must_be* that port, which is taken: the sign-in page would refuse
            another one, and nobody would know why.
    """
    async with AsyncExitStack() as stack:
        loopback: Loopback | None = None

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if loopback:
                await loopback.serve(reader, writer)

        try:
            server = await asyncio.start_server(serve, "127.0.0.1", port)
        except OSError as error:
            if must_be:
                raise SignInUnavailable(
                    f"port {port}, its oauth.callback_port, cannot be listened on"
                    f" ({os.strerror(error.errno or 0)}): end the program that uses it, and sign in"
                    " again"
                ) from error
            server = await asyncio.start_server(serve, "127.0.0.1", 0)
        await stack.enter_async_context(server)
        bound = server.sockets[0].getsockname()[1]
        # Browsers may try IPv6 first for "localhost"; without it they use IPv4.
        with contextlib.suppress(OSError):
            second = await asyncio.start_server(serve, "::1", bound)
            await stack.enter_async_context(second)
        loopback = Loopback(bound)
        yield loopback


class _Person:
    """Sends the user to a page and waits for the result."""

    def __init__(self, visit: Visit, loopback: Loopback, silence_limits: SilenceLimits) -> None:
        self._visit = visit
        self._loopback = loopback
        self._silence_limits = silence_limits
        self._url = ""

    async def visit(self, url: str) -> None:
        """Remember the page; the SDK asks for the result next."""
        self._url = url

    async def came_back(self) -> AuthorizationCodeResult:
        """Show the page and return the code and state from the redirect."""
        with self._silence_limits.asking():
            try:
                async with asyncio.timeout(_SIGN_IN_LIMIT_S):
                    address = await self._loopback.address_after(self._url, self._visit)
            except TimeoutError as error:
                limit = f"{_SIGN_IN_LIMIT_S / 60:g} minutes"
                raise OAuthFlowError(f"the sign-in was not finished within {limit}") from error
            except ExceptionGroup as group:
                raise OAuthFlowError(error_line(group)) from group
        return _code_in(address)


def _code_in(address: str) -> AuthorizationCodeResult:
    query = {name: values[0] for name, values in parse_qs(urlsplit(address.strip()).query).items()}
    if "error" in query:
        reason = query.get("error_description") or query["error"]
        raise OAuthFlowError(f"the sign-in was refused: {reason}")
    if "code" not in query:
        raise OAuthFlowError("that URL has no `code` parameter; paste the one the browser ended at")
    return AuthorizationCodeResult(
        code=query["code"], state=query.get("state"), iss=query.get("iss")
    )


async def _nobody(_url: str = "") -> NoReturn:
    raise SignInNeeded("it needs a sign-in")


def _browser_flow(
    url: str,
    oauth: OAuth,
    storage: Storage,
    visit: Callable[[str], Awaitable[None]],
    came_back: Callable[[], Awaitable[AuthorizationCodeResult]],
) -> BrowserFlow:
    """Return the flow with a browser."""
    redirect_uri = AnyUrl(storage.record.redirect_uri or _NOWHERE)
    metadata = OAuthClientMetadata(
        redirect_uris=[redirect_uri],
        client_name="agent-cli",
        scope=" ".join(oauth.scopes) or None,
    )
    if oauth.client_id:
        storage.record.client = OAuthClientInformationFull(
            redirect_uris=[redirect_uri],
            client_id=oauth.client_id,
            client_secret=oauth.client_secret or None,
            token_endpoint_auth_method="client_secret_basic" if oauth.client_secret else "none",
        )
    client_url = oauth.client_metadata_url or None
    flow = BrowserFlow(url, metadata, storage, visit, came_back, client_metadata_url=client_url)
    flow.issuer = oauth.issuer
    return flow


def _machine_flow(config: ServerConfig, storage: Storage) -> ConcurrentFlow:
    """Return the flow without a user: the program itself signs in."""
    url, oauth = config.url, config.oauth
    scope = " ".join(oauth.scopes) or None
    with warnings.catch_warnings():
        # Without an issuer the server chooses who gets the credentials; that is up to the user.
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        if oauth.grant == "jwt_bearer":
            return AssertionFlow(url, oauth, storage, workload_assertion(oauth))
        if oauth.grant == "token_exchange":
            exchanged = enterprise_assertion(oauth, Addresses(config))
            return AssertionFlow(url, oauth, storage, exchanged)
        if not oauth.client_key:
            return SecretFlow(
                url,
                storage,
                oauth.client_id,
                oauth.client_secret,
                scope=scope,
                issuer=oauth.issuer or None,
            )
        assertion = SignedJWTParameters(
            issuer=oauth.client_id,
            subject=oauth.client_id,
            signing_key=oauth.client_key,
            signing_algorithm=_algorithm(oauth.client_key),
        )
        return KeyFlow(
            url,
            storage,
            oauth.client_id,
            assertion.create_assertion_provider(),
            scope=scope,
            issuer=oauth.issuer or None,
        )


def _algorithm(key: str) -> str:
    """Return the signature algorithm for a key; an invalid key is reported when it is used."""
    # Imported late: slow to load, and sign-ins with a key are rare.
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        loaded = load_pem_private_key(key.encode(), None)
    except (ValueError, TypeError) as error:
        raise OAuthFlowError(f"the client's key is not usable: {error}") from error
    return "ES256" if isinstance(loaded, ec.EllipticCurvePrivateKey) else "RS256"
