"""Store sign-ins in our credentials, as the SDK's `TokenStorage`."""

import asyncio
import time
from urllib.parse import urlsplit

from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import BaseModel, ValidationError

from agent_cli.contracts.errors import AgentCliError
from agent_cli.mcp_client.credentials import Credentials
from agent_cli.system.logger import logger

_EARLY_S = 30.0
log = logger(__name__)


class SignInRecord(BaseModel):
    """The stored data of one sign-in.

    Attributes:
        expires_at: Unix time; the SDK does not keep it, and would use an expired token.
        authorization_server: Without it a refresh would go to the wrong URL.
        proof_key: The private key the tokens are bound to, PEM; "" without one (see dpop).
        is_bound: Whether the tokens are useless without the key.
        redirect_uri: The registered redirect URI; some servers compare it exactly.
    """

    tokens: OAuthToken | None = None
    expires_at: float | None = None
    client: OAuthClientInformationFull | None = None
    authorization_server: OAuthMetadata | None = None
    resource: ProtectedResourceMetadata | None = None
    redirect_uri: str = ""
    proof_key: str = ""
    is_bound: bool = False


class Storage:
    """The SDK's TokenStorage over our credentials; also keeps data that the SDK does not."""

    def __init__(self, url: str, credentials: Credentials, text: str = "") -> None:
        """Keep the sign-in to *url*, which is stored in *credentials* as *text*."""
        self.record = _parsed(text, url)
        self._url = url
        self._credentials = credentials
        self._stored = text
        self._provider: OAuthClientProvider | None = None

    @classmethod
    async def load(cls, url: str, credentials: Credentials) -> "Storage":
        """Return the storage of one server; an unreadable record counts as none."""
        return cls(url, credentials, await _text_of(url, credentials))

    def use_redirect(self, redirect_uri: str) -> None:
        """Set the redirect URI; discard a client that is registered with another one."""
        if self.record.redirect_uri != redirect_uri:
            self.record.client = None
            self.record.redirect_uri = redirect_uri

    def attached_to(self, provider: OAuthClientProvider) -> OAuthClientProvider:
        """Restore the metadata that *provider* found in earlier runs (python-sdk issue 3250)."""
        provider.context.oauth_metadata = self.record.authorization_server
        provider.context.protected_resource_metadata = self.record.resource
        self._provider = provider
        return provider

    async def newer_tokens(self) -> OAuthToken | None:
        """Return the stored tokens if another session has stored them since we read or did."""
        text = await _text_of(self._url, self._credentials)
        stored = _parsed(text, self._url)
        if text == self._stored or stored.tokens is None:
            return None
        self._stored = text
        stored.client = stored.client or self.record.client
        for name in SignInRecord.model_fields:  # others hold the record itself
            setattr(self.record, name, getattr(stored, name))
        return await self.get_tokens()

    async def get_tokens(self) -> OAuthToken | None:
        """Return the tokens; blank an expired access token, so that the SDK refreshes it."""
        tokens, expires_at = self.record.tokens, self.record.expires_at
        if tokens and expires_at is not None and time.time() > expires_at - _EARLY_S:
            return tokens.model_copy(update={"access_token": ""})
        return tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store *tokens* with their expiry time and their authorization server."""
        self.record.tokens = tokens
        lasts_s = tokens.expires_in
        self.record.expires_at = None if lasts_s is None else time.time() + lasts_s
        if self._provider:
            self.record.authorization_server = self._provider.context.oauth_metadata
            self.record.resource = self._provider.context.protected_resource_metadata
        await self._save()

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return our client registration."""
        return self.record.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store our client registration."""
        self.record.client = client_info
        await self._save()

    async def _save(self) -> None:
        text = self.record.model_dump_json(exclude_none=True)
        try:
            await asyncio.to_thread(self._credentials.write, self._url, text)
            self._stored = text
        except AgentCliError as error:
            # This connection is signed in anyway; the next one has to sign in again.
            log.warning("mcp sign-in not kept", fault=str(error))


async def _text_of(url: str, credentials: Credentials) -> str:
    try:
        return await asyncio.to_thread(credentials.read, url) or ""
    except AgentCliError as error:
        # Most servers need no sign-in; a server that does will refuse the connection.
        log.warning("mcp sign-in not read", server=urlsplit(url).hostname, fault=str(error))
        return ""


def _parsed(text: str, url: str) -> SignInRecord:
    try:
        return SignInRecord.model_validate_json(text) if text else SignInRecord()
    except ValidationError:
        log.warning("mcp sign-in damaged", server=urlsplit(url).hostname)
        return SignInRecord()
