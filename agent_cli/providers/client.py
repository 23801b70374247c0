"""The connection to the API: everything that touches the SDK. Importing it costs over a second.

Only `anthropic_messages` imports it, in a thread, once the program has something on the screen.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import anthropic
import httpx2

from agent_cli.contracts.errors import ModelError
from agent_cli.providers.connection import Connection
from agent_cli.providers.failures import CallFailed, Refusal, broken_off, refused
from agent_cli.providers.recording import RecordTransport, ReplayTransport
from agent_cli.providers.retry_policy import server_delay_s
from agent_cli.version import __version__

DEFAULT_BASE_URL = "https://api.anthropic.com"
CONNECT_TIMEOUT_S = 5.0
WRITE_TIMEOUT_S = 60.0
# The end of the body comes with the last event; a server that holds it back is not waited for.
FINISH_LIMIT_S = 0.5


@dataclass(frozen=True, slots=True)
class OpenReply:
    """A 200 whose body has not been read yet."""

    chunks: AsyncIterator[bytes]
    content_type: str
    request_id: str | None
    redact: Callable[[str], str] = str

    async def finish(self) -> None:
        """Read what follows the last event, so that the connection serves the next request too."""
        with suppress(TimeoutError, httpx2.RequestError):
            async with asyncio.timeout(FINISH_LIMIT_S):
                async for _ in self.chunks:
                    pass


class Client:
    """One SDK client with its retries off."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sdk = _sdk_client(connection)

    @property
    def base_url(self) -> str:
        """Where requests go, for messages."""
        return str(self._sdk.base_url).rstrip("/")

    @asynccontextmanager
    async def post(
        self, parameters: dict[str, Any], *, api_key: str | None
    ) -> AsyncIterator[OpenReply]:
        """Send a request and hand over the reply's bytes; leaving the block closes the connection.

        Args:
            parameters: Arguments of `messages.create`; Any, because the SDK has a type for each.
            api_key: Replaces the connection's for this request.

        Raises:
            CallFailed: No reply, an error status, or the reply broke off.
        """
        sdk = self._sdk.with_options(api_key=api_key) if api_key else self._sdk
        _check_credentials(sdk)
        create = sdk.beta.messages.with_streaming_response.create
        request_id: str | None = None
        try:
            # Not the SDK's own stream: it skips events without an `event:` line, and it turns each
            # event into an object that has fields the server never sent.
            async with create(**parameters, stream=True) as response:
                request_id = response.request_id
                content_type = response.headers.get("content-type", "")
                yield OpenReply(
                    response.iter_bytes(), content_type, request_id, self._connection.redact
                )
        except anthropic.APIStatusError as error:
            raise _status_failure(
                error, str(parameters["model"]), self._connection.redact
            ) from error
        except anthropic.APIConnectionError as error:
            raise _connection_failure(error, self.base_url) from error
        except httpx2.TimeoutException as error:
            silence = f"the reply stopped: nothing for {self._connection.read_timeout_s:g} s"
            raise broken_off(silence, request_id) from error
        except httpx2.RequestError as error:
            said = str(error) or type(error).__name__
            raise broken_off(f"the connection broke in the reply ({said})", request_id) from error

    async def aclose(self) -> None:
        """Close the connections that are kept for the next request."""
        await self._sdk.close()


def _check_credentials(sdk: anthropic.AsyncAnthropic) -> None:
    key = sdk.api_key or sdk.auth_token
    if key is None and sdk.credentials is None:
        sentence = (
            "there is no API key; set ANTHROPIC_API_KEY in the environment or in .env "
            "(`agent-cli doctor` checks it)"
        )
        raise CallFailed(ModelError(sentence), retryable=False)
    if key is not None and not (key.isascii() and key.isprintable()):
        # Checked here because the HTTP library's own error would print the key.
        sentence = "the API key holds a line break or a character that is not ASCII; copy it again"
        raise CallFailed(ModelError(sentence), retryable=False)


def _sdk_client(connection: Connection) -> anthropic.AsyncAnthropic:
    api_key = connection.api_key or None
    if connection.replay is not None or (connection.compat and not connection.auth_token):
        # Nobody checks it: a recording has no server, and local servers want any key at all.
        api_key = api_key or os.environ.get("ANTHROPIC_API_KEY") or "none"
    timeout = httpx2.Timeout(
        WRITE_TIMEOUT_S, connect=CONNECT_TIMEOUT_S, read=connection.read_timeout_s
    )
    try:
        sdk = anthropic.AsyncAnthropic(
            api_key=api_key,
            auth_token=(connection.auth_token or None) if api_key is None else None,
            base_url=connection.base_url
            or os.environ.get("ANTHROPIC_BASE_URL")
            or DEFAULT_BASE_URL,
            timeout=timeout,
            max_retries=0,
            default_headers={"User-Agent": f"agent-cli/{__version__}"},
            http_client=_http_client(connection),
            open_telemetry=False,
        )
    except (anthropic.AnthropicError, httpx2.InvalidURL, ValueError) as error:
        raise ModelError(
            f"the API client cannot be set up: {error}; check key, base URL and proxies"
        ) from error
    except ImportError as error:  # the one that only a proxy asks for
        raise ModelError(
            "a SOCKS proxy needs one more package: pip install socksio, or set another proxy"
        ) from error
    except OSError as error:
        raise ModelError(
            f"the certificates cannot be read ({error.strerror}); check SSL_CERT_FILE and"
            " SSL_CERT_DIR"
        ) from error
    given = str(sdk.base_url).rstrip("/")
    return sdk.with_options(base_url=given.removesuffix("/v1")) if given.endswith("/v1") else sdk


def _http_client(connection: Connection) -> httpx2.AsyncClient:
    if connection.replay is not None:
        return anthropic.DefaultAsyncHttpxClient(
            transport=ReplayTransport(connection.replay, pace=connection.replay_pace)
        )
    if connection.record is not None:
        # A transport of its own bypasses proxies from the environment: recordings are made direct.
        return anthropic.DefaultAsyncHttpxClient(
            transport=RecordTransport(
                httpx2.AsyncHTTPTransport(), connection.record, connection.redact
            )
        )
    # Not the SDK's own: that one complains at its end when it could not be made.
    return anthropic.DefaultAsyncHttpxClient()


def _status_failure(
    error: anthropic.APIStatusError, model_id: str, redact: Callable[[str], str]
) -> CallFailed:
    refusal = Refusal(
        status=error.status_code,
        message=redact(error.api_message or error.message),
        kind=error.type,
        code=error.error_code,
        request_id=error.request_id,
        model_id=model_id,
        headers=error.response.headers,
    )
    return refused(refusal, asked_delay_s=server_delay_s(error.response.headers, now_s=time.time()))


def _connection_failure(error: anthropic.APIConnectionError, base_url: str) -> CallFailed:
    cause = error.__cause__
    while isinstance(cause, BaseExceptionGroup):  # attempts side by side: one stands for all
        cause = cause.exceptions[0]
    if isinstance(cause, ModelError):
        return CallFailed(cause, retryable=False)
    if isinstance(cause, httpx2.UnsupportedProtocol | OverflowError):
        fault = (
            "has a port above 65535"
            if isinstance(cause, OverflowError)
            else "does not begin with http:// or https://"
        )
        sentence = f"the base URL {base_url!r} {fault}; check ANTHROPIC_BASE_URL"
        return CallFailed(ModelError(sentence), retryable=False)
    if isinstance(error, anthropic.APITimeoutError):
        return broken_off(f"{base_url} did not answer in time")
    return broken_off(f"{base_url} cannot be reached ({cause or error})")
