"""Vertex AI: application default credentials as google-auth finds them."""

import threading
from collections.abc import Mapping
from typing import Any, cast

import httpx2
from anthropic import not_given
from anthropic.lib.vertex import AsyncAnthropicVertex

from agent_cli.contracts.errors import ModelError
from agent_cli.providers.anthropic.clouds.account import CloudCredentials
from agent_cli.providers.anthropic.platforms import Platform
from agent_cli.providers.anthropic.sdk_client import Sdk, sdk_options

_SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
_PROJECTS = ("ANTHROPIC_VERTEX_PROJECT_ID", "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT")


class GoogleAccount:
    """A Google Cloud project and its credentials."""

    def __init__(self, platform: Platform, variables: Mapping[str, str]) -> None:
        self._platform = platform
        self._variables = variables
        self._lock = threading.Lock()
        self._found: Any = None  # Any: google-auth ships no types
        self._own_project: str | None = None

    def credentials(self) -> CloudCredentials:
        """Return a token that is still valid; see `CloudAccount`."""
        from google.auth.exceptions import (  # the extra
            DefaultCredentialsError,
            GoogleAuthError,
            RefreshError,
        )

        login = "run: gcloud auth application-default login"
        title = self._platform.title
        try:
            with self._lock:
                return self._renewed()
        except DefaultCredentialsError as error:
            raise ModelError(
                f"{title}: no Google credentials were found; {login}, or set"
                " GOOGLE_APPLICATION_CREDENTIALS to a file that can be read"
            ) from error
        except RefreshError as error:
            raise ModelError(f"{title}: the Google sign-in has expired; {login}") from error
        except GoogleAuthError as error:
            raise ModelError(f"{title}: Google gave no token ({error}); {login}") from error

    def client(self, credentials: CloudCredentials, http: httpx2.AsyncClient) -> Sdk:
        """Make the SDK's client; see `CloudAccount`."""
        return AsyncAnthropicVertex(
            region=self._variables["CLOUD_ML_REGION"],
            project_id=credentials.project or self._named_project() or not_given,
            access_token=credentials.token or credentials.key,
            base_url=self._variables.get(self._platform.remedies.address) or None,
            **sdk_options(http),
        )

    def _renewed(self) -> CloudCredentials:
        import google.auth  # the extra
        from google.auth.transport.requests import Request

        auth = cast("Any", google.auth)  # as above
        if self._found is None:
            # The library would not see a value of the user's .env.
            if path := self._variables.get("GOOGLE_APPLICATION_CREDENTIALS"):
                loaded = auth.load_credentials_from_file(path, scopes=_SCOPES)
            else:
                loaded = auth.default(scopes=_SCOPES)
            self._found, self._own_project = loaded
        if not self._found.valid:
            self._found.refresh(Request())
        project = self._named_project() or self._own_project
        if not project:
            raise ModelError(
                f"{self._platform.title}: no Google Cloud project is named; export"
                " ANTHROPIC_VERTEX_PROJECT_ID=your-project"
            )
        source = f"{type(self._found).__module__}, project {project}"
        return CloudCredentials(token=str(self._found.token), project=project, source=source)

    def _named_project(self) -> str | None:
        return next(filter(None, map(self._variables.get, _PROJECTS)), None)
