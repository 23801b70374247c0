"""The SDK's sign-in flows, extended: refresh tokens on a 401, refuse servers without PKCE.

The flows without a browser sign in by themselves: with a workload token, or with the identity of
the user at the company's identity provider.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from http import HTTPStatus
from urllib.parse import parse_qsl

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.shared.auth import (
    JWT_BEARER_GRANT_TYPE,
    AuthorizationCodeResult,
    OAuthClientMetadata,
)

from agent_cli.mcp_client.addresses import Addresses
from agent_cli.mcp_client.config import OAuth
from agent_cli.mcp_client.reasons import SignInUnavailable
from agent_cli.mcp_client.token_storage import Storage
from agent_cli.system.paths import expanded
from agent_cli.system.shapes import is_object

_TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
_ID_TOKEN = "urn:ietf:params:oauth:token-type:id_token"
_ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
_TOKEN_LIMIT_S = 30.0
_SAID_CHARS = 200
Assertion = Callable[[str, str], Awaitable[str]]
"""Returns the assertion for (authorization server, resource)."""


class BrowserFlow(OAuthClientProvider):
    """The flow with a browser, which is opened only if a refresh token does not help.

    Refresh tokens are often valid once, and a second use may end the sign-in: if another session
    has used ours, its tokens are used.
    """

    def __init__(
        self,
        url: str,
        metadata: OAuthClientMetadata,
        storage: Storage,
        visit: Callable[[str], Awaitable[None]],
        came_back: Callable[[], Awaitable[AuthorizationCodeResult]],
        *,
        client_metadata_url: str | None,
    ) -> None:
        """Sign in to *url*; *visit* takes the user to a page, *came_back* returns its result."""
        super().__init__(
            url, metadata, storage, visit, came_back, client_metadata_url=client_metadata_url
        )
        self._storage = storage

    async def _auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        flow = super()._auth_flow(request)
        is_refreshed = False
        try:
            outgoing = await flow.__anext__()
            while True:
                response = yield outgoing
                refused = outgoing is request and response.status_code == HTTPStatus.UNAUTHORIZED
                # The SDK only refreshes tokens it knows to be expired; else it opens the browser.
                if refused and not is_refreshed and self._may_refresh():
                    is_refreshed = True
                    if is_usable := await self._take_over():
                        self._add_auth_header(request)
                        response = yield request
                        is_usable = response.status_code != HTTPStatus.UNAUTHORIZED
                    if not is_usable:
                        answer = yield await self._refresh_token()
                        if await self._handle_refresh_response(answer):
                            self._add_auth_header(request)
                            response = yield request
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    def _may_refresh(self) -> bool:
        return self.context.is_token_valid() and self.context.can_refresh_token()

    async def _handle_refresh_response(self, response: httpx2.Response) -> bool:
        status = response.status_code
        if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            # The refresh token is still valid, so it is kept.
            raise SignInUnavailable(
                f"its authorization server answered HTTP {status} when the token was to be renewed;"
                " try again later"
            )
        if status != HTTPStatus.OK and await self._take_over():
            return True  # another session was faster
        return await super()._handle_refresh_response(response)

    async def _take_over(self) -> bool:
        """Use the stored tokens if another session has replaced ours; return whether it has."""
        tokens = await self._storage.newer_tokens()
        if tokens is None:
            return False
        self.context.current_tokens = tokens
        self.context.client_info = await self._storage.get_client_info()
        self.context.token_expiry_time = self._storage.record.expires_at
        return True

    async def _perform_authorization_code_grant(self) -> tuple[str, str]:
        # Source: MCP 2025-11-25, authorization, code protection: clients must refuse without PKCE.
        metadata = self.context.oauth_metadata
        if metadata and "S256" not in (metadata.code_challenge_methods_supported or ()):
            raise SignInUnavailable(
                f"its authorization server {metadata.issuer} does not offer PKCE (S256), without"
                " which a code could be stolen; ask its operator to turn it on"
            )
        return await super()._perform_authorization_code_grant()


class AssertionFlow(ClientCredentialsOAuthProvider):
    """The flow that signs in with an assertion instead of a client secret.

    Source: RFC 7523 section 2.1; SEP-1933 (workload identity), SEP-990 (enterprise-managed).
    """

    def __init__(self, url: str, oauth: OAuth, storage: Storage, assertion: Assertion) -> None:
        """Sign in to *url*, calling *assertion* again for each token."""
        super().__init__(
            url,
            storage,
            oauth.client_id,
            oauth.client_secret,
            scope=" ".join(oauth.scopes) or None,
            issuer=oauth.issuer or None,
        )
        self._assertion = assertion

    async def _exchange_token_client_credentials(self) -> httpx2.Request:
        request = await super()._exchange_token_client_credentials()
        metadata = self.context.oauth_metadata
        if metadata is None:
            raise SignInUnavailable(
                "it names no authorization server, and an assertion is made out to one;"
                " set the server's oauth.issuer"
            )
        form = dict(parse_qsl(request.content.decode()))
        form["grant_type"] = JWT_BEARER_GRANT_TYPE
        form["client_id"] = self._fixed_client_info.client_id
        form["assertion"] = await self._assertion(
            str(metadata.issuer), self.context.get_resource_url()
        )
        headers = {
            name: value for name, value in request.headers.items() if name == "authorization"
        }
        return httpx2.Request("POST", request.url, data=form, headers=headers)


def workload_assertion(oauth: OAuth) -> Assertion:
    """Return a function that reads the workload token from its file on each call."""

    async def assertion(_issuer: str, _resource: str) -> str:
        return _text_of(oauth.assertion_file, "oauth.assertion_file")

    return assertion


def enterprise_assertion(oauth: OAuth, addresses: Addresses) -> Assertion:
    """Return a function that exchanges the user's identity token for one issued to a server.

    Source: RFC 8693; draft-ietf-oauth-identity-assertion-authz-grant section 4.
    """

    async def assertion(issuer: str, resource: str) -> str:
        form = {
            "grant_type": _TOKEN_EXCHANGE,
            "requested_token_type": _ID_JAG,
            "audience": issuer,
            "resource": resource,
            "subject_token": _text_of(oauth.id_token_file, "oauth.id_token_file"),
            "subject_token_type": _ID_TOKEN,
            "client_id": oauth.idp_client_id,
        }
        if oauth.scopes:
            form["scope"] = " ".join(oauth.scopes)
        if oauth.idp_client_secret:
            form["client_secret"] = oauth.idp_client_secret
        async with httpx2.AsyncClient(
            timeout=_TOKEN_LIMIT_S, event_hooks={"request": [addresses.check]}
        ) as client:
            response = await client.post(oauth.idp_token_endpoint, data=form)
        answer = _object(response)
        token = answer.get("access_token")
        if response.status_code != HTTPStatus.OK or not isinstance(token, str):
            said = str(answer.get("error_description") or answer.get("error") or "no token")
            raise SignInUnavailable(
                f"the identity provider answered HTTP {response.status_code}"
                f" ({said[:_SAID_CHARS]}); sign in there again, and renew the file"
                f" {oauth.id_token_file}"
            )
        if answer.get("issued_token_type") != _ID_JAG:
            raise SignInUnavailable("the identity provider answered with another kind of token")
        return token

    return assertion


def _object(response: httpx2.Response) -> dict[str, object]:
    try:
        value = response.json()
    except ValueError:
        return {}
    return value if is_object(value) else {}


def _text_of(file: str, setting: str) -> str:
    try:
        text = expanded(file).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SignInUnavailable(f"{setting}: {file} cannot be read ({error})") from error
    if not text:
        raise SignInUnavailable(f"{setting}: {file} is empty")
    return text
