"""The SDK's sign-in flows, extended: never block other calls, refuse servers without PKCE.

The flows without a browser sign in by themselves: with a workload token, or with the identity of
the user at the company's identity provider.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import fields
from http import HTTPStatus
from urllib.parse import parse_qsl, urljoin

import httpx2
from mcp.client.auth import (
    AuthorizationCodeResult,
    OAuthClientProvider,
    OAuthFlowError,
    OAuthRegistrationError,
    OAuthTokenError,
)
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
)
from mcp.client.auth.oauth2 import OAuthContext
from mcp.client.auth.utils import extract_field_from_www_auth, issuers_match
from mcp.shared.auth import JWT_BEARER_GRANT_TYPE
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER

from agent_cli.mcp_client.config import OAuth
from agent_cli.mcp_client.reasons import (
    NO_SIGN_IN,
    OTHER_ISSUERS,
    SignInUnavailable,
    missing_scope,
    sign_in_refusal,
    without_metadata,
    without_scope,
)
from agent_cli.mcp_client.renewal import Renewal, Renewed
from agent_cli.mcp_client.token_storage import Storage, present_fields, without_refresh
from agent_cli.mcp_client.web_client import Addresses, CheckedAsyncClient
from agent_cli.system.json_text import json_object
from agent_cli.system.paths import expanded

_TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
_ID_TOKEN = "urn:ietf:params:oauth:token-type:id_token"
_ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
_WELL_KNOWN = "/.well-known/"
_TOKEN_LIMIT_S = 30.0
_RENEWALS_MAX = 2
"""Another process's token may have expired as well; a refreshed one is not refreshed again."""
_REASON_CHARS = 200
Assertion = Callable[[str, str], Awaitable[str]]
"""Returns the assertion for (authorization server, resource)."""


class _ContextWithResource(OAuthContext):
    """The SDK's context with a resource of the user's choice; "" is none."""

    resource = ""

    def get_resource_url(self) -> str:
        return self.resource or super().get_resource_url()

    def should_include_resource_param(self, protocol_version: str | None = None) -> bool:  # noqa: ARG002
        return bool(self.resource)


class _Unneeded(Exception):
    """The server asks for no sign-in, and names no page for one."""


class ConcurrentFlow(OAuthClientProvider):
    """A flow whose lock is held to sign in, never while the server works on a call.

    The SDK holds it from the request to the response, so that one slow call stops all others
    (modelcontextprotocol/python-sdk, issues 1326, 2660, 3209 and 3243).

    Attributes:
        renewal: Renews the access token; set before the first request.
        storage: The stored sign-in.
        scopes: The scopes that the user wants to ask for, instead of those that the server names.
        is_attended: Whether a sign-in can be finished now: by the program itself, or by a user.
        is_asked_for: The user wants to sign in, whether or not the first answer asks for it: some
            servers list their tools to anyone, and ask only when one is called.
    """

    renewal: Renewal
    storage: Storage
    scopes: str = ""
    is_attended: bool = True
    is_asked_for: bool = False
    _is_unneeded: bool = False
    _others: Sequence[str] = ()  # authorization servers that the server names, and that are unused

    def use_resource(self, resource: str) -> None:
        """Ask for tokens for *resource*, whatever the server names; "" names none."""
        known = {each.name: getattr(self.context, each.name) for each in fields(OAuthContext)}
        self.context = context = _ContextWithResource(**known)
        context.resource = resource

    async def _auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        if not self._initialized:
            await self._initialize()
        self.context.protocol_version = request.headers.get(MCP_PROTOCOL_VERSION_HEADER)
        if self.renewal.is_due:
            await self.renewal.renew(self._access_token)
        used = self._access_token
        self._add_auth_header(request)
        is_asked_for, self.is_asked_for = self.is_asked_for, False
        if is_asked_for and used and self.storage.record.missing_scope:
            response = without_scope(request, self.storage.record.missing_scope)
        else:
            response = yield request
        for _ in range(_RENEWALS_MAX):
            # The SDK only refreshes tokens it knows to be expired; else it opens the browser.
            if response.status_code != HTTPStatus.UNAUTHORIZED or not used:
                break
            outcome = await self.renewal.renew(used)
            if outcome is Renewed.NOT:
                break
            used = self._access_token
            self._add_auth_header(request)
            response = yield request
            if outcome is Renewed.REFRESHED:
                break
        refusal = await self._refusal(response, used, is_asked_for=is_asked_for)
        if refusal is None:
            return
        is_unneeded = refusal is not response  # as far as the server says
        flow = super()._auth_flow(request)
        try:
            await flow.__anext__()  # takes the lock
            if self._access_token in ("", used):  # no other call has signed in meanwhile
                self._is_unneeded = is_unneeded
                outgoing = await flow.asend(refusal)
                while outgoing is not request:
                    if is_unneeded and outgoing.method == "POST" and not self._has_metadata:
                        break
                    self._require_metadata(outgoing)
                    outgoing = await flow.asend(await self._mended((yield outgoing)))
        except _Unneeded:
            pass
        except StopAsyncIteration:
            return  # no sign-in would help
        finally:
            await flow.aclose()
        self._add_auth_header(request)
        yield request

    async def _refusal(
        self, response: httpx2.Response, used: str, *, is_asked_for: bool
    ) -> httpx2.Response | None:
        """Return the answer that a sign-in begins with; None if *response* asks for none.

        Raises:
            OAuthFlowError: The sign-in lacks a scope, and nobody can sign in now.
        """
        if response.status_code not in NO_SIGN_IN:
            if not is_asked_for or (used and not self.storage.record.is_refused):
                return None
            response = httpx2.Response(HTTPStatus.UNAUTHORIZED, request=response.request)
        elif not self.is_attended:
            missing = missing_scope(response)
            if missing is not None or response.status_code == HTTPStatus.UNAUTHORIZED:
                await self.storage.note_refusal(used, missing or "")
            if missing is not None:
                which = f"the scope {missing}" if missing else "a scope of this call"
                raise OAuthFlowError(f"the sign-in does not cover {which}")
        if self.scopes and response.status_code == HTTPStatus.UNAUTHORIZED:
            _name_first(response, "scope", self.scopes)
        if where := extract_field_from_www_auth(response, "resource_metadata"):
            with suppress(ValueError):  # its request will fail
                # Servers that do not know their own address name a path alone.
                absolute = urljoin(self.context.server_url, where.strip('"'))
                _name_first(response, "resource_metadata", absolute)
        return response

    @property
    def _access_token(self) -> str:
        tokens = self.context.current_tokens
        return tokens.access_token if tokens else ""

    @property
    def _has_metadata(self) -> bool:
        found = self.context.protected_resource_metadata or self.context.oauth_metadata
        return found is not None

    def _require_metadata(self, outgoing: httpx2.Request | None = None) -> None:
        """Refuse to sign in at the MCP server itself, as the SDK does, if it names others for that.

        Metadata may still be read; if *outgoing*, which asks for some, fails, it says who is left.
        """
        if not self._others or self.context.oauth_metadata:
            return
        if outgoing is None or outgoing.method == "POST":
            raise without_metadata(self.context.auth_server_url or "", self._others)
        outgoing.extensions[OTHER_ISSUERS] = self._others

    async def _mended(self, response: httpx2.Response) -> httpx2.Response:
        """Return metadata of an authorization server without faults that the SDK stops at.

        Those are null or "" for what is absent, and an issuer that stands elsewhere with a slash
        at its end, or without.

        Raises:
            OAuthRegistrationError: It is a refusal to register us, whose page the SDK quotes whole.
        """
        is_registration = response.request.headers.get("content-type") == "application/json"
        if is_registration and not response.is_success:
            body = await response.aread()
            raise OAuthRegistrationError(sign_in_refusal(response, body, "registered no client"))
        found = json_object(await response.aread())
        if found is None or "issuer" not in found or _WELL_KNOWN not in response.url.path:
            return response
        present = {name: value for name, value in found.items() if value not in (None, "")}
        expected = self._expected_issuer()
        if _is_same(str(found["issuer"]), expected):
            present["issuer"] = expected
        return httpx2.Response(response.status_code, json=present, request=response.request)

    async def _handle_token_response(self, response: httpx2.Response) -> None:
        if not response.is_success:
            # The SDK quotes the whole body, which may repeat the code and its verifier.
            raise OAuthTokenError(
                sign_in_refusal(response, await response.aread(), "gave no token")
            )
        if (found := json_object(await response.aread())) is not None:
            fields = present_fields(found)
            response = httpx2.Response(response.status_code, json=fields, request=response.request)
        await super()._handle_token_response(response)
        if tokens := self.context.current_tokens:
            self.context.current_tokens = without_refresh(tokens)


def _is_same(issuer: str, expected: str) -> bool:
    """Compare two issuers without the slash at their end, which many servers add or leave out."""
    return issuers_match(issuer.rstrip("/"), expected.rstrip("/"))


def _name_first(response: httpx2.Response, field: str, value: str) -> None:
    """Let *response* ask for a sign-in with *value*: the SDK takes the first of each field."""
    named = response.headers.get("www-authenticate", "")
    response.headers["www-authenticate"] = f'Bearer {field}="{value}", {named}'


class BrowserFlow(ConcurrentFlow):
    """The flow with a browser, which is opened only if a refresh token does not help.

    Attributes:
        issuer: The authorization server to use of those that the server names; "" is the first.
    """

    issuer: str = ""

    def _select_authorization_server(self, advertised: list[str]) -> str:
        named = (each for each in advertised if _is_same(each, self.issuer))
        chosen = next(named, advertised[0])
        self._others = [each for each in advertised if each != chosen]
        return chosen

    async def _perform_authorization_code_grant(self) -> tuple[str, str]:
        if self._is_unneeded and not self._has_metadata:
            raise _Unneeded  # with a configured or stored client, nothing is registered before
        self._require_metadata()
        # Source: MCP 2025-11-25, authorization, code protection: clients must refuse without PKCE.
        metadata = self.context.oauth_metadata
        if metadata and "S256" not in (metadata.code_challenge_methods_supported or ()):
            raise SignInUnavailable(
                f"its authorization server {metadata.issuer} does not offer PKCE (S256), without"
                " which a code could be stolen; ask its operator to turn it on"
            )
        came_back = self.context.callback_handler

        async def came_back_from_issuer() -> AuthorizationCodeResult:
            assert came_back is not None
            result = await came_back()
            issuer = str(metadata.issuer) if metadata else None
            expected = issuer or self._expected_issuer()
            same = result.iss is not None and _is_same(result.iss, expected)
            return result.model_copy(update={"iss": issuer}) if same else result

        self.context.callback_handler = came_back_from_issuer
        try:
            return await super()._perform_authorization_code_grant()
        finally:
            self.context.callback_handler = came_back


class SecretFlow(ConcurrentFlow, ClientCredentialsOAuthProvider):
    """The flow of a program that has a secret."""


class KeyFlow(ConcurrentFlow, PrivateKeyJWTOAuthProvider):
    """The flow of a program that signs with a private key."""


class AssertionFlow(SecretFlow):
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
        async with CheckedAsyncClient(addresses, timeout=_TOKEN_LIMIT_S) as client:
            response = await client.post(oauth.idp_token_endpoint, data=form)
        answer = json_object(response.content) or {}
        token = answer.get("access_token")
        if response.status_code != HTTPStatus.OK or not isinstance(token, str):
            reason = str(answer.get("error_description") or answer.get("error") or "no token")
            raise SignInUnavailable(
                f"the identity provider answered HTTP {response.status_code}"
                f" ({reason[:_REASON_CHARS]}); sign in there again, and renew the file"
                f" {oauth.id_token_file}"
            )
        if answer.get("issued_token_type") != _ID_JAG:
            raise SignInUnavailable("the identity provider answered with another kind of token")
        return token

    return assertion


def _text_of(file: str, setting: str) -> str:
    try:
        text = expanded(file).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SignInUnavailable(f"{setting}: {file} cannot be read ({error})") from error
    if not text:
        raise SignInUnavailable(f"{setting}: {file} is empty")
    return text
