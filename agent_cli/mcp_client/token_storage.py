"""Store sign-ins in our credentials, as the SDK's `TokenStorage`."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
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
from agent_cli.mcp_client.private_file import held
from agent_cli.system.logger import logger

_EARLY_S = 30.0
_LOCK_LIMIT_S = 45.0
"""Longer than a renewal of another process may take."""
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
        return cls(url, credentials, await _text_of(url, credentials) or "")

    def use_redirect(self, redirect_uri: str) -> None:
        """Set the redirect URI; discard a client that is registered with another one."""
        if self.record.redirect_uri != redirect_uri:
            self.record.client = None
            self.record.redirect_uri = redirect_uri

    def attach(self, provider: OAuthClientProvider) -> None:
        """Restore the metadata that *provider* found in earlier runs (python-sdk issue 3250)."""
        provider.context.oauth_metadata = self.record.authorization_server
        provider.context.protected_resource_metadata = self.record.resource
        self._provider = provider

    @property
    def is_due(self) -> bool:
        """Whether the access token expires soon, or has; unknown lifetimes never do."""
        return self._expires_within(_EARLY_S)

    @property
    def is_expired(self) -> bool:
        """Whether the access token has expired."""
        return self._expires_within(0)

    def _expires_within(self, seconds: float) -> bool:
        expires_at = self.record.expires_at
        return expires_at is not None and time.time() > expires_at - seconds

    @asynccontextmanager
    async def alone(self) -> AsyncGenerator[None]:
        """Keep other processes from renewing this sign-in.

        Raises:
            TimeoutError: Another one has been renewing it for longer than a renewal may take.
        """
        async with AsyncExitStack() as stack:
            if lock := self._credentials.lock_file(self._url):
                try:
                    await stack.enter_async_context(held(lock, _LOCK_LIMIT_S))
                except TimeoutError:
                    raise
                except OSError as error:
                    # Then it cannot be stored there either, so no other process has it.
                    log.warning("mcp sign-in not locked", fault=str(error))
            yield

    async def read_again(self) -> bool:
        """Take over the stored sign-in if another session has changed it; return whether it has."""
        text = await _text_of(self._url, self._credentials)
        if text is None or text == self._stored:
            return False
        stored = _parsed(text, self._url)
        self._stored = text
        stored.client = stored.client or self.record.client
        for name in SignInRecord.model_fields:  # others hold the record itself
            setattr(self.record, name, getattr(stored, name))
        return True

    async def get_tokens(self) -> OAuthToken | None:
        """Return the tokens for the SDK: without an expired one, and never to refresh.

        The SDK would refresh them while other calls wait, and knows of no other process.
        """
        tokens = self.record.tokens
        if tokens and self.is_due:
            return without_refresh(tokens).model_copy(update={"access_token": ""})
        return without_refresh(tokens) if tokens else None

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


def without_refresh(tokens: OAuthToken) -> OAuthToken:
    """Return *tokens* without the refresh token, as the SDK gets them."""
    return tokens.model_copy(update={"refresh_token": None})


async def _text_of(url: str, credentials: Credentials) -> str | None:
    """Return the stored text, "" without any, None if that cannot be read."""
    try:
        return await asyncio.to_thread(credentials.read, url) or ""
    except AgentCliError as error:
        # Most servers need no sign-in; a server that does will refuse the connection.
        log.warning("mcp sign-in not read", server=urlsplit(url).hostname, fault=str(error))
        return None


def _parsed(text: str, url: str) -> SignInRecord:
    try:
        return SignInRecord.model_validate_json(text) if text else SignInRecord()
    except ValidationError:
        log.warning("mcp sign-in damaged", server=urlsplit(url).hostname)
        return SignInRecord()
