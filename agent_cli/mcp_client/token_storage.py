"""Store sign-ins as the SDK's `TokenStorage`, with the data that the SDK does not keep."""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from math import ceil
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
from agent_cli.mcp_client.stored_files import held
from agent_cli.system.logger import logger

_EARLY_S = 30.0
_LONGEST_LIFE_S = 1e12
_LOCK_LIMIT_S = 45.0
"""Longer than a renewal of another process may take."""
_log = logger(__name__)


class SignInRecord(BaseModel):
    """The stored data of one sign-in.

    Attributes:
        expires_at: Unix time; the SDK does not keep it, and would use an expired token.
        authorization_server: Without it a refresh would go to the wrong URL.
        proof_key: The private key the tokens are bound to, PEM; "" without one (see dpop).
        is_bound: Whether the tokens are useless without the key.
        redirect_uri: The registered redirect URI; some servers compare it exactly.
        requested_scope: The scope that the sign-in asked for; None if it is not known.
        is_refused: Whether the server refused the tokens since they were issued.
        missing_scope: The scopes that calls needed and the sign-in does not cover; "" is none.
    """

    tokens: OAuthToken | None = None
    expires_at: float | None = None
    client: OAuthClientInformationFull | None = None
    authorization_server: OAuthMetadata | None = None
    resource: ProtectedResourceMetadata | None = None
    redirect_uri: str = ""
    requested_scope: str | None = None
    is_refused: bool = False
    missing_scope: str = ""
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
                    _log.warning("mcp sign-in not locked", fault=str(error))
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
        """Store the *tokens* of a new sign-in, and what it asked for."""
        if self._provider:
            self.record.requested_scope = self._provider.context.client_metadata.scope
        self.record.missing_scope = ""
        await self.renewed(tokens)

    async def note_refusal(self, token: str, missing_scope: str) -> None:
        """Store that the server refused *token*, for lack of *missing_scope* or altogether.

        The next sign-in knows then what to ask for, also if the server lists its tools to anyone.
        """
        with suppress(TimeoutError):
            async with self.alone():
                await self.read_again()  # another session may have signed in or out
                tokens = self.record.tokens
                if tokens is None or tokens.access_token != token:
                    return
                self.record.is_refused = True
                scopes = f"{self.record.missing_scope} {missing_scope}".split()
                self.record.missing_scope = " ".join(dict.fromkeys(scopes))
                await self._save()

    async def renewed(self, tokens: OAuthToken) -> None:
        """Store *tokens* with their expiry time and their authorization server."""
        self.record.tokens = tokens
        self.record.is_refused = False
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
        """Store our client registration; beside tokens of another one, only with new tokens.

        A sign-in that then fails would leave a refresh token with a client that must not use it.
        """
        self.record.client = client_info
        if self.record.tokens is None:
            await self._save()

    async def _save(self) -> None:
        text = self.record.model_dump_json(exclude_none=True)
        try:
            await asyncio.to_thread(self._credentials.write, self._url, text)
            self._stored = text
        except AgentCliError as error:
            # This connection is signed in anyway; the next one has to sign in again.
            _log.warning("mcp sign-in not kept", fault=str(error))


def without_refresh(tokens: OAuthToken) -> OAuthToken:
    """Return *tokens* without the refresh token, as the SDK gets them."""
    return tokens.model_copy(update={"refresh_token": None})


def present_fields(answer: Mapping[str, object]) -> dict[str, object]:
    """Return an *answer* with tokens as the SDK reads it: nothing empty, and in whole seconds.

    Some servers write 0 for tokens that do not expire, so that is taken for an unknown lifetime.
    """
    fields = {name: value for name, value in answer.items() if value not in (None, "")}
    with suppress(ValueError):  # it is absent, or the SDK refuses it
        lasts_s = float(str(fields.get("expires_in")))
        fields["expires_in"] = ceil(lasts_s) if 0 < lasts_s < _LONGEST_LIFE_S else None
    return fields


async def _text_of(url: str, credentials: Credentials) -> str | None:
    """Return the stored text, "" without any, None if that cannot be read."""
    try:
        return await asyncio.to_thread(credentials.read, url) or ""
    except AgentCliError as error:
        # Most servers need no sign-in; a server that does will refuse the connection.
        _log.warning("mcp sign-in not read", server=urlsplit(url).hostname, fault=str(error))
        return None


def _parsed(text: str, url: str) -> SignInRecord:
    try:
        return SignInRecord.model_validate_json(text) if text else SignInRecord()
    except ValidationError:
        _log.warning("mcp sign-in damaged", server=urlsplit(url).hostname)
        return SignInRecord()
