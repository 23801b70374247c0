"""Claude on other clouds, through the SDK's client for each: the Messages API, and signing in.

The SDK costs over a second, so this package is loaded in a thread; a vendor's module, only if it is
chosen.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from agent_cli.contracts.errors import ModelError
from agent_cli.providers.anthropic.clouds.account import CloudAccount, CloudCredentials, signed_in
from agent_cli.providers.anthropic.connection import Connection
from agent_cli.providers.anthropic.sdk_client import open_reply
from agent_cli.providers.failures import CallFailed, without_password
from agent_cli.providers.transport import OpenReply, http_client


class CloudClient:
    """One SDK client, recreated after the credentials change."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._account = account_of(connection)
        self._http = http_client(connection)
        self._credentials = CloudCredentials()
        self._sdk = self._account.client(self._credentials, self._http)
        self.base_url = without_password(str(self._sdk.base_url).rstrip("/"))

    @asynccontextmanager
    async def post(
        self, parameters: dict[str, Any], *, api_key: str | None
    ) -> AsyncGenerator[OpenReply]:
        """Send a request; see `loop_clients.Client`."""
        if api_key:
            credentials = CloudCredentials(key=api_key)
        else:
            credentials = await signed_in(self._account, self._connection.platform)
        if credentials != self._credentials:
            # Not the SDK's `copy`: that of AsyncAnthropicAWS would pass ANTHROPIC_API_KEY on.
            self._sdk = self._account.client(credentials, self._http)
            self._credentials = credentials
        async with open_reply(self._sdk, parameters, self._connection, self.base_url) as opened:
            yield opened

    async def count_tokens(self, parameters: dict[str, Any], *, api_key: str | None) -> int:  # noqa: ARG002 - as the port
        """Refuse: not every cloud has a count, and the names of its parameters differ."""
        raise CallFailed(ModelError("tokens are not counted on this cloud"), retryable=False)

    async def aclose(self) -> None:
        """Close the idle connections."""
        await self._http.aclose()


def account_of(connection: Connection) -> CloudAccount:
    """Return the cloud account of *connection*."""
    platform, variables = connection.platform, connection.variables
    match platform.name:
        case "vertex":
            from agent_cli.providers.anthropic.clouds.google import GoogleAccount

            return GoogleAccount(platform, variables)
        case "foundry":
            from agent_cli.providers.anthropic.clouds.azure import AzureAccount

            return AzureAccount(platform, variables)
        case _:
            from agent_cli.providers.anthropic.clouds.aws import AwsAccount

            return AwsAccount(platform, variables)


async def credentials_of(connection: Connection) -> str:
    """Return the source of the credentials for the cloud of *connection*; no model is asked.

    Raises:
        ModelError: There are none; the message says how to sign in.
    """
    try:
        return (await signed_in(account_of(connection), connection.platform)).source
    except CallFailed as failed:
        raise failed.error from failed
