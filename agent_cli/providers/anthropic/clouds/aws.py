"""Both platforms on AWS: botocore finds credentials; the SDK signs with them.

Values of this program's own `.env` files come before botocore's sources; it reads the process's
environment, `~/.aws`, SSO, programs and the machine's role by itself.
"""

import threading
from collections.abc import Mapping
from typing import Any, cast

import httpx2
from anthropic.lib.aws import AsyncAnthropicAWS
from anthropic.lib.bedrock import AsyncAnthropicBedrockMantle

from agent_cli.contracts.errors import ModelError
from agent_cli.providers.anthropic.clouds.account import CloudCredentials
from agent_cli.providers.anthropic.platforms import Platform
from agent_cli.providers.anthropic.sdk_client import Sdk, sdk_options


class AwsAccount:
    """An AWS account: a key of the platform, AWS keys, or a profile."""

    def __init__(self, platform: Platform, variables: Mapping[str, str]) -> None:
        self._platform = platform
        self._variables = variables
        self._lock = threading.Lock()
        self._session: Any = None  # Any: botocore ships no types

    def credentials(self) -> CloudCredentials:
        """Find credentials; see `CloudAccount`."""
        for name in self._platform.keys:
            if key := self._variables.get(name):
                return CloudCredentials(key=key, source=name)
        access_key = self._variables.get("AWS_ACCESS_KEY_ID")
        secret_key = self._variables.get("AWS_SECRET_ACCESS_KEY")
        if access_key and secret_key:
            return CloudCredentials(
                access_key=access_key,
                secret_key=secret_key,
                session_token=self._variables.get("AWS_SESSION_TOKEN") or None,
                source="AWS_ACCESS_KEY_ID",
            )
        with self._lock:
            return self._of_chain()

    def client(self, credentials: CloudCredentials, http: httpx2.AsyncClient) -> Sdk:
        """Make the SDK's client; see `CloudAccount`."""
        address = self._variables.get(self._platform.remedies.address) or None
        region = self._region()
        if not region:
            raise ModelError(
                f"{self._platform.title}: no AWS region is set; export AWS_REGION=us-east-1, or"
                " another one that has the model"
            )
        if self._platform.name == "aws":
            return AsyncAnthropicAWS(
                api_key=credentials.key,
                aws_access_key=credentials.access_key,
                aws_secret_key=credentials.secret_key,
                aws_session_token=credentials.session_token,
                aws_region=region,
                workspace_id=self._variables["ANTHROPIC_AWS_WORKSPACE_ID"],
                base_url=address,
                **sdk_options(http),
            )
        return AsyncAnthropicBedrockMantle(
            api_key=credentials.key,
            aws_access_key=credentials.access_key,
            aws_secret_key=credentials.secret_key,
            aws_session_token=credentials.session_token,
            aws_region=region,
            base_url=address,
            **sdk_options(http),
        )

    def _region(self) -> str | None:
        named = self._variables.get("AWS_REGION") or self._variables.get("AWS_DEFAULT_REGION")
        if named:
            return named
        try:
            region: str | None = self._opened().get_config_variable("region")
        except (ImportError, ModelError):  # a key needs neither the library nor a profile
            return None
        return region

    def _opened(self) -> Any:  # Any: as above
        import botocore.session  # the extra, and a key needs none
        from botocore.exceptions import BotoCoreError

        if self._session is None:
            profile = self._variables.get("AWS_PROFILE") or None
            session = cast("Any", botocore.session).Session(profile=profile)
            try:
                session.get_scoped_config()  # reveals a missing profile
            except BotoCoreError as error:
                raise self._failure(error) from error
            self._session = session
        return self._session

    def _of_chain(self) -> CloudCredentials:
        import botocore.exceptions  # the extra

        session = self._opened()
        try:
            found = session.get_credentials()
            frozen = found.get_frozen_credentials() if found else None
        except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError) as error:
            raise self._failure(error) from error
        if frozen is None:
            # The session caches its failure, but the user may sign in meanwhile.
            self._session = None
            keys = "".join(f", or {name}" for name in self._platform.keys)
            raise ModelError(
                f"{self._platform.title}: no AWS credentials were found; sign in with"
                f" `aws sso login` or `aws configure`, or set AWS_PROFILE, AWS_ACCESS_KEY_ID and"
                f" AWS_SECRET_ACCESS_KEY{keys}"
            )
        return CloudCredentials(
            access_key=frozen.access_key,
            secret_key=frozen.secret_key,
            session_token=frozen.token,
            source=str(found.method),
        )

    def _failure(self, error: Exception) -> ModelError:
        """Return an error of botocore as a sentence with the remedy."""
        from botocore.exceptions import (  # the extra
            LoginError,
            NoAuthTokenError,
            ProfileNotFound,
            SSOError,
            TokenRetrievalError,
        )

        self._session = None
        title, cause = self._platform.title, str(error).rstrip(".")
        profile = self._variables.get("AWS_PROFILE")
        with_profile = f" --profile {profile}" if profile else ""
        if isinstance(error, ProfileNotFound):
            return ModelError(
                f"{title}: AWS has no profile {profile!r}; check AWS_PROFILE and ~/.aws/config"
            )
        if isinstance(error, LoginError | SSOError | NoAuthTokenError | TokenRetrievalError):
            command = "login" if isinstance(error, LoginError) else "sso login"
            return ModelError(
                f"{title}: the AWS sign-in is missing or has expired; run:"
                f" aws {command}{with_profile}"
            )
        return ModelError(
            f"{title}: AWS gave no credentials ({cause}); {self._platform.remedies.sign_in}"
        )
