"""The Messages API through the SDK, for credentials that only it can find, and its batches.

The SDK handles profiles and workload identity, and its client classes those of other clouds
(`clouds/`). Importing it takes over a second: `loop_clients` and `model_list` do so in a thread,
and only if `connection.known_credential` finds nothing.
"""

import json
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias, TypedDict

import anthropic
import httpx2
from anthropic.lib.bedrock import AsyncAnthropicBedrockMantle
from anthropic.lib.vertex import AsyncAnthropicVertex
from anthropic.resources.beta.messages import AsyncBatches

from agent_cli.contracts.errors import ModelError
from agent_cli.contracts.timeline import Json
from agent_cli.providers.anthropic.connection import (
    Connection,
    chosen_base_url,
    custom_headers,
    known_credential,
)
from agent_cli.providers.anthropic.platforms import ANTHROPIC
from agent_cli.providers.arrivals import Arrivals
from agent_cli.providers.encoding import encodable
from agent_cli.providers.failures import (
    CallFailed,
    Refusal,
    Remedies,
    checked_key,
    quoted,
    refused,
    without_password,
)
from agent_cli.providers.transport import OpenReply, broken_reply, connection_failure, http_client
from agent_cli.system.shapes import is_array
from agent_cli.version import __version__

_SIGN_IN: Final = "sign in again, or set ANTHROPIC_API_KEY"

Sdk: TypeAlias = anthropic.AsyncAnthropic | AsyncAnthropicBedrockMantle | AsyncAnthropicVertex


class SdkOptions(TypedDict):
    """Arguments that all clients of the SDK take."""

    timeout: httpx2.Timeout
    max_retries: int
    default_headers: dict[str, str]
    http_client: httpx2.AsyncClient
    open_telemetry: Literal[False]


class SdkClient:
    """One SDK client, with its retries switched off."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sdk = _sdk_client(connection)

    @property
    def base_url(self) -> str:
        """The address of the server, for messages."""
        return without_password(str(self._sdk.base_url).rstrip("/"))

    @property
    def sdk(self) -> anthropic.AsyncAnthropic:
        """The client of the SDK; make its requests within `failures`."""
        return self._with_key(None)

    def failures(self, model_id: str = "") -> AbstractContextManager[None]:
        """Raise the failures of requests as `CallFailed`."""
        return _failures(self._connection, self.base_url, model_id)

    @asynccontextmanager
    async def post(
        self, parameters: dict[str, Any], *, api_key: str | None
    ) -> AsyncGenerator[OpenReply]:
        """Send a request; see `loop_clients.Client`."""
        sdk = self._with_key(api_key)
        async with open_reply(sdk, parameters, self._connection, self.base_url) as opened:
            yield opened

    async def count_tokens(self, parameters: dict[str, Any], *, api_key: str | None) -> int:
        """Count the tokens of a prompt; see `loop_clients.Client`."""
        sdk = self._with_key(api_key)
        sent: dict[str, Any] = {name: encodable(value) for name, value in parameters.items()}
        with self.failures(str(parameters["model"])):
            return (await sdk.beta.messages.count_tokens(**sent)).input_tokens

    async def list_models(self) -> list[dict[str, object]]:
        """Return the server's list of models, unparsed.

        Raises:
            CallFailed: The request failed.
        """
        with self.failures():
            return [each.to_dict() async for each in self.sdk.models.list(limit=1000)]

    async def aclose(self) -> None:
        """Close the idle connections."""
        await self._sdk.close()

    def _with_key(self, api_key: str | None) -> anthropic.AsyncAnthropic:
        """Return the client of the SDK, with *api_key* in place of the connection's if given."""
        sdk = self._sdk.with_options(api_key=checked_key(api_key)) if api_key else self._sdk
        _check_credentials(sdk)
        return sdk


@asynccontextmanager
async def open_reply(
    sdk: Sdk, parameters: dict[str, Any], connection: Connection, base_url: str
) -> AsyncGenerator[OpenReply]:
    """Send a request with *sdk*; see `loop_clients.Client`."""
    create = sdk.beta.messages.with_streaming_response.create
    request_id: str | None = None
    sent: dict[str, Any] = {name: encodable(value) for name, value in parameters.items()}
    try:
        with _failures(connection, base_url, str(parameters["model"])):
            # Not the SDK's own stream: it skips events without an `event:` line and builds objects
            # with fields that the server never sent.
            async with create(**sent, stream=True) as response:
                request_id = _request_id(response.headers)
                content_type = response.headers.get("content-type", "")
                async with Arrivals(response.iter_bytes()) as arrivals:
                    yield OpenReply(arrivals, content_type, request_id, connection.redact)
    except httpx2.RequestError as error:
        raise broken_reply(error, connection, request_id) from error


@contextmanager
def _failures(connection: Connection, base_url: str, model_id: str) -> Generator[None]:
    """Raise the failures of requests to *base_url* as `CallFailed`."""
    try:
        yield
    except anthropic.APIStatusError as error:
        raise _status_failure(error, model_id, connection) from error
    except anthropic.APIConnectionError as error:
        variable = connection.platform.remedies.address
        raise connection_failure(error.__cause__ or error, base_url, variable) from error
    except anthropic.AnthropicError as error:
        raise _sign_in_failure(error, connection) from error


def _sign_in_failure(error: anthropic.AnthropicError, connection: Connection) -> CallFailed:
    """Return the failure for credentials of a profile or a cloud that are missing or expired.

    The SDK reads and renews them before each request.
    """
    platform = connection.platform
    is_cloud = platform is not ANTHROPIC
    advice = platform.remedies.sign_in if is_cloud else _SIGN_IN
    reason = f"not signed in ({quoted(connection.redact(str(error)))})"
    # A token server that is out of reach may be back soon.
    is_passing = isinstance(error.__cause__, httpx2.RequestError)
    return CallFailed(
        ModelError(f"{reason}; {advice}", trouble="network" if is_passing else "auth"),
        reason=reason,
        retryable=is_passing,
        kind="connection" if is_passing else None,
    )


def _check_credentials(sdk: anthropic.AsyncAnthropic) -> None:
    key = sdk.api_key or sdk.auth_token
    if key is None and sdk.credentials is None:
        sentence = (
            "there is no API key; set ANTHROPIC_API_KEY in the environment or in .env "
            "(`agent-cli doctor` checks it)"
        )
        raise CallFailed(ModelError(sentence, trouble="auth"), retryable=False)
    if key is not None:
        checked_key(key)


def _sdk_client(connection: Connection) -> anthropic.AsyncAnthropic:
    http = http_client(connection)
    options = sdk_options(http)
    key = (connection.api_key or "").strip() or None
    variables = connection.variables
    # The SDK itself reads these two only from the process's environment.
    profile = None if known_credential(connection) else variables.get("ANTHROPIC_PROFILE") or None
    try:
        options["default_headers"] = {**custom_headers(variables), **options["default_headers"]}
        return anthropic.AsyncAnthropic(
            api_key=key,
            auth_token=None if key else (connection.auth_token or "").strip() or None,
            profile=profile,
            base_url=chosen_base_url(connection),
            **options,
        )
    except CallFailed as failed:
        raise failed.error from failed
    except anthropic.AnthropicError as error:
        raise _sign_in_failure(error, connection).error from error
    except (httpx2.InvalidURL, ValueError) as error:
        raise ModelError(
            f"the API client cannot be set up: {error}; check key, base URL and proxies"
        ) from error


def sdk_options(http: httpx2.AsyncClient) -> SdkOptions:
    """Return the common arguments of the SDK's clients: our connections, no retries or tracing."""
    return {
        "timeout": http.timeout,
        "max_retries": 0,
        "default_headers": {"User-Agent": f"agent-cli/{__version__}"},
        "http_client": http,
        "open_telemetry": False,
    }


def _status_failure(
    error: anthropic.APIStatusError, model_id: str, connection: Connection
) -> CallFailed:
    headers = error.response.headers
    refusal = Refusal(
        status=error.status_code,
        message=connection.redact(error.api_message or _message_in(error.body) or error.message),
        kind=error.type,
        code=error.error_code,
        request_id=_request_id(headers),
        model_id=model_id,
        headers=headers,
        remedies=_remedies(connection),
    )
    return refused(refusal)


def _remedies(connection: Connection) -> Remedies:
    """Return the words for a refusal: with a profile there is no key to check."""
    usual = connection.platform.remedies
    if connection.platform is not ANTHROPIC or known_credential(connection):
        return usual
    return replace(
        usual,
        rejected="the sign-in was rejected",
        sign_in=_SIGN_IN,
        forbidden="the account has no permission for this",
    )


def _message_in(body: object) -> str | None:
    """Return the message of an error not in the API's form: AWS's, or Google's in a list."""
    match body[:1] if is_array(body) else body:
        case [{"error": {"message": str() as message}}]:
            return message
        case {"message": str() as message} | {"Message": str() as message}:
            return message
        case _:
            return None


def _request_id(headers: httpx2.Headers) -> str | None:
    """Return the id that the server, or the cloud in front of it, gave the request."""
    found: str | None = headers.get("request-id") or headers.get("x-amzn-requestid")
    return found


class MessageBatches:
    """Creates Message Batches and reads their results.

    Every method raises `ModelError` if the request failed.
    """

    def __init__(self, connection: Connection) -> None:
        """Connect to nothing yet."""
        self._client = SdkClient(connection)

    async def create(self, requests: Mapping[str, Mapping[str, Json]], betas: Sequence[str]) -> str:
        """Send *requests*, the parameters of each by its custom id; return the id of the batch."""
        sent: Any = [  # JSON: the SDK describes each parameter
            {"custom_id": id, "params": {name: encodable(each) for name, each in params.items()}}
            for id, params in requests.items()
        ]
        with self._asking() as batches:
            if id := (await batches.create(requests=sent, betas=[*betas])).id:
                return id
            raise ValueError("a Message Batch without an id")

    async def has_ended(self, id: str) -> bool:
        """Return whether each request of a batch has its result."""
        with self._asking() as batches:
            return (await batches.retrieve(id)).processing_status == "ended"

    async def results(self, id: str) -> AsyncGenerator[tuple[str, Mapping[str, Json]], None]:
        """Yield the custom id and the result of each request of a batch that has ended."""
        with self._asking() as batches:
            async for line in await batches.results(id):
                result: dict[str, Json] = json.loads(line.result.to_json())
                yield line.custom_id, result

    async def listed(self, since_s: float, requests: int) -> AsyncGenerator[tuple[str, bool], None]:
        """Yield the batches of so many requests created since a Unix time: id, whether ended."""
        with self._asking() as batches:
            latest = await batches.list(limit=100)
            if not is_array(latest.data):
                raise ValueError("a list without data")
            async for each in latest:
                if each.created_at.timestamp() < since_s:
                    return
                counts = each.request_counts
                ended = counts.succeeded + counts.errored + counts.canceled + counts.expired
                if counts.processing + ended == requests:
                    yield each.id, each.processing_status == "ended"

    async def aclose(self) -> None:
        """Close the idle connections."""
        await self._client.aclose()

    @contextmanager
    def _asking(self) -> Generator[AsyncBatches]:
        try:
            with self._client.failures():
                yield self._client.sdk.beta.messages.batches
        except CallFailed as failed:
            raise failed.error from failed
        except (AttributeError, TypeError, ValueError) as error:
            # The SDK takes any answer with status 200 for the API's, and stumbles over it later.
            raise ModelError(
                f"{self._client.base_url} answered with something else than Message Batches; sign"
                " in with a browser if it is a network's sign-in page, else check"
                f" {ANTHROPIC.remedies.address}",
                may_have_cost=True,
                trouble="network",
            ) from error
