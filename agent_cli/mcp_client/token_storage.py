"""What is kept of a sign-in, as the SDK's `TokenStorage` over our credentials."""

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
    """What is kept of a sign-in.

    Attributes:
        expires_at: Unix time; the SDK forgets it, and would take a stale token for a good one.
        authorization_server: Without it a refresh would go to the wrong address.
        proof_key: The private key tokens are bound to, PEM; "" without one (see dpop).
        is_bound: Whether the tokens are of no use without the key.
        redirect_uri: What the client is registered with; some servers compare it exactly.
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
    """The SDK's TokenStorage over our credentials; also keeps what the SDK forgets."""

    def __init__(self, url: str, credentials: Credentials, record: SignInRecord) -> None:
        self.record = record
        self._url = url
        self._credentials = credentials
        self._provider: OAuthClientProvider | None = None

    @classmethod
    async def load(cls, url: str, credentials: Credentials) -> "Storage":
        """Return the storage of one server; a record that cannot be read counts as none."""
        record, server = SignInRecord(), urlsplit(url).hostname
        try:
            if text := await asyncio.to_thread(credentials.read, url):
                record = SignInRecord.model_validate_json(text)
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
