"""Signing in to HTTP servers: the SDK's flow with our storage, our listener and our person.

A sign-in page is shown only when somebody is there who asked for it (`Host.visit`). Without, what
is stored is used and refreshed, and a server that wants more is reported.
"""

import asyncio
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from mcp.shared.exceptions import MCPDeprecationWarning
from pydantic import AnyUrl, BaseModel, ValidationError

from agent_cli.contracts.errors import AgentCliError
from agent_cli.mcp_client.config import OAuth, ServerConfig
from agent_cli.mcp_client.credentials import Credentials
from agent_cli.mcp_client.host import Host, Visit
from agent_cli.mcp_client.loopback import Loopback, listening
from agent_cli.mcp_client.patience import Patience
from agent_cli.mcp_client.reasons import one_line
from agent_cli.system.logger import logger

_SIGN_IN_LIMIT_S = 600.0
_EARLY_S = 30.0
_NOWHERE = "http://localhost/callback"
log = logger(__name__)


class SignInNeeded(OAuthFlowError):
    """The server wants a sign-in and nobody is there to do it."""


class _Record(BaseModel):
    """What is kept of a sign-in.

    Attributes:
        expires_at: Unix time; the SDK forgets it, and would take a stale token for a good one.
        authorization_server: Without it a refresh would go to the wrong address.
        redirect_uri: What the client is registered with; some servers compare it exactly.
    """

    tokens: OAuthToken | None = None
    expires_at: float | None = None
    client: OAuthClientInformationFull | None = None
    authorization_server: OAuthMetadata | None = None
    resource: ProtectedResourceMetadata | None = None
    redirect_uri: str = ""


@asynccontextmanager
async def authorization(
    config: ServerConfig, host: Host, patience: Patience
) -> AsyncIterator[httpx2.Auth | None]:
    """Yield what signs requests to the server, None when nothing is known and nobody is there.

    An Authorization header that is configured is used as it is, whatever the server says.
    """
    oauth = config.oauth
    if any(name.lower() == "authorization" for name in config.headers):
        yield None
        return
    storage = await _Storage.load(config.url, host.credentials)
    if oauth.grant == "client_credentials":
        yield storage.attached_to(_machine_provider(config.url, oauth, storage))
    elif host.visit is not None:
        async with listening(
            oauth.callback_port or (urlsplit(storage.record.redirect_uri).port or 0)
        ) as loopback:
            storage.use_redirect(loopback.redirect_uri)
            person = _Person(host.visit, loopback, patience)
            yield storage.attached_to(
                _person_provider(config.url, oauth, storage, person.visit, person.came_back)
            )
    elif storage.record.tokens is not None:
        yield storage.attached_to(_person_provider(config.url, oauth, storage, _nobody, _no_code))
    else:
        yield None


class _Person:
    """Sends the user to a page and waits for what comes of it."""

    def __init__(self, visit: Visit, loopback: Loopback, patience: Patience) -> None:
        self._visit = visit
        self._loopback = loopback
        self._patience = patience
        self._url = ""

    async def visit(self, url: str) -> None:
        """Remember the page; the SDK asks for the result next."""
        self._url = url

    async def came_back(self) -> AuthorizationCodeResult:
        """Show the page and return what the browser brought back."""
        with self._patience.asking():
            try:
                async with asyncio.timeout(_SIGN_IN_LIMIT_S):
                    address = await self._loopback.address_after(self._url, self._visit)
            except TimeoutError as error:
                limit = f"{_SIGN_IN_LIMIT_S / 60:g} minutes"
                raise OAuthFlowError(f"nobody signed in within {limit}") from error
            except ExceptionGroup as group:
                raise OAuthFlowError(one_line(group)) from group
        return _code_in(address)


def _code_in(address: str) -> AuthorizationCodeResult:
    query = {name: values[0] for name, values in parse_qs(urlsplit(address.strip()).query).items()}
    if "error" in query:
        reason = query.get("error_description") or query["error"]
        raise OAuthFlowError(f"the sign-in was refused: {reason}")
    if "code" not in query:
        raise OAuthFlowError("the address holds no code; paste the one the browser ended at")
    return AuthorizationCodeResult(
        code=query["code"], state=query.get("state"), iss=query.get("iss")
    )


async def _nobody(_url: str) -> None:
    raise SignInNeeded("it needs a sign-in")


async def _no_code() -> AuthorizationCodeResult:
    raise SignInNeeded("it needs a sign-in")


def _person_provider(
    url: str,
    oauth: OAuth,
    storage: "_Storage",
    visit: Callable[[str], Awaitable[None]],
    came_back: Callable[[], Awaitable[AuthorizationCodeResult]],
) -> OAuthClientProvider:
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
    return OAuthClientProvider(
        url,
        metadata,
        storage,
        visit,
        came_back,
        client_metadata_url=oauth.client_metadata_url or None,
    )


def _machine_provider(url: str, oauth: OAuth, storage: "_Storage") -> OAuthClientProvider:
    """Return the flow without a person: the program itself is who signs in."""
    scope = " ".join(oauth.scopes) or None
    with warnings.catch_warnings():
        # Without an issuer the server chooses who gets the credentials: the user's decision.
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        if not oauth.client_key:
            return ClientCredentialsOAuthProvider(
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
        return PrivateKeyJWTOAuthProvider(
            url,
            storage,
            oauth.client_id,
            assertion.create_assertion_provider(),
            scope=scope,
            issuer=oauth.issuer or None,
        )


def _algorithm(key: str) -> str:
    """Return how a key of this kind signs; what is no key is told when it is used."""
    # Slow to load, and almost nobody signs in with a key.
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    try:
        loaded = load_pem_private_key(key.encode(), None)
    except (ValueError, TypeError) as error:
        raise OAuthFlowError(f"the client's key is not usable: {error}") from error
    return "ES256" if isinstance(loaded, ec.EllipticCurvePrivateKey) else "RS256"


class _Storage:
    """The SDK's TokenStorage over our credentials; also keeps what the SDK forgets."""

    def __init__(self, url: str, credentials: Credentials, record: _Record) -> None:
        self.record = record
        self._url = url
        self._credentials = credentials
        self._provider: OAuthClientProvider | None = None

    @classmethod
    async def load(cls, url: str, credentials: Credentials) -> "_Storage":
        """Return the storage of one server; a record that cannot be read counts as none."""
        record, server = _Record(), urlsplit(url).hostname
        try:
            if text := await asyncio.to_thread(credentials.read, url):
                record = _Record.model_validate_json(text)
        except ValidationError:
            log.warning("mcp sign-in damaged", server=server)
        except AgentCliError as error:
            # Most servers need none; one that does says so.
            log.warning("mcp sign-in not read", server=server, fault=str(error))
        return cls(url, credentials, record)

    def use_redirect(self, redirect_uri: str) -> None:
        """Note where the browser will come back to; a client registered for another is void."""
        if self.record.redirect_uri != redirect_uri:
            self.record.client = None
            self.record.redirect_uri = redirect_uri

    def attached_to(self, provider: OAuthClientProvider) -> OAuthClientProvider:
        """Give *provider* back what it found out in earlier runs (python-sdk issue 3250)."""
        provider.context.oauth_metadata = self.record.authorization_server
        provider.context.protected_resource_metadata = self.record.resource
        self._provider = provider
        return provider

    async def get_tokens(self) -> OAuthToken | None:
        """Return the tokens; an expired one is blanked, so that the SDK refreshes it."""
        tokens, expires_at = self.record.tokens, self.record.expires_at
        if tokens and expires_at is not None and time.time() > expires_at - _EARLY_S:
            return tokens.model_copy(update={"access_token": ""})
        return tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keep *tokens*, with the time they end and who gave them."""
        self.record.tokens = tokens
        lasts_s = tokens.expires_in
        self.record.expires_at = None if lasts_s is None else time.time() + lasts_s
        if self._provider:
            self.record.authorization_server = self._provider.context.oauth_metadata
            self.record.resource = self._provider.context.protected_resource_metadata
        await self._save()

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return what we are registered as."""
        return self.record.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Keep what we are registered as."""
        self.record.client = client_info
        await self._save()

    async def _save(self) -> None:
        text = self.record.model_dump_json(exclude_none=True)
        try:
            await asyncio.to_thread(self._credentials.write, self._url, text)
        except AgentCliError as error:
            # This connection is signed in all the same; the next one will not be.
            log.warning("mcp sign-in not kept", fault=str(error))
