"""Microsoft Foundry: the resource's key, or a token of Microsoft Entra ID."""

import threading
from collections.abc import Callable, Mapping

import httpx2
from anthropic.lib.foundry import AsyncAnthropicFoundry

from agent_cli.contracts.errors import ModelError
from agent_cli.providers.anthropic.clouds.account import CloudCredentials
from agent_cli.providers.anthropic.platforms import Platform
from agent_cli.providers.anthropic.sdk_client import Sdk, sdk_options

_SCOPE = "https://ai.azure.com/.default"


class AzureAccount:
    """A Foundry resource and its credentials."""

    def __init__(self, platform: Platform, variables: Mapping[str, str]) -> None:
        self._platform = platform
        self._variables = variables
        self._lock = threading.Lock()
        self._token: Callable[[], str] | None = None

    def credentials(self) -> CloudCredentials:
        """Return the key, or a token that is still valid; see `CloudAccount`."""
        for name in self._platform.keys:
            if key := self._variables.get(name):
                return CloudCredentials(key=key, source=name)
        from azure.core.exceptions import AzureError  # the extra
        from azure.identity import DefaultAzureCredential, get_bearer_token_provider

        try:
            with self._lock:
                if self._token is None:
                    self._token = get_bearer_token_provider(DefaultAzureCredential(), _SCOPE)
                return CloudCredentials(token=self._token(), source="Microsoft Entra ID")
        except (AzureError, ValueError) as error:
            # The library's message is a page long: one paragraph for each method it tried.
            raise ModelError(
                f"{self._platform.title}: no Azure credentials were found or accepted;"
                f" run: az login, or set {' or '.join(self._platform.keys)}"
            ) from error

    def client(self, credentials: CloudCredentials, http: httpx2.AsyncClient) -> Sdk:
        """Make the SDK's client; see `CloudAccount`."""
        address = self._variables.get(self._platform.remedies.address)
        resource = self._variables.get("ANTHROPIC_FOUNDRY_RESOURCE")
        token = None if credentials.key else (lambda: credentials.token or "")
        # The SDK takes a URL or a resource, not both.
        return AsyncAnthropicFoundry(
            base_url=address or f"https://{resource}.services.ai.azure.com/anthropic/",
            api_key=credentials.key,
            azure_ad_token_provider=token,
            **sdk_options(http),
        )
