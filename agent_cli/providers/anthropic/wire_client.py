"""The Messages API over plain HTTP, for a known key or token; imports in a tenth of the SDK's time.

The SDK stays the reference: `tests/providers/test_wire_client.py` sends the same requests through
both and compares what arrives, so that an SDK release that changes the wire is noticed.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from agent_cli.contracts.timeline import Json
from agent_cli.providers.anthropic.connection import (
    Connection,
    base_url,
    custom_headers,
)
from agent_cli.providers.anthropic.platforms import ANTHROPIC
from agent_cli.providers.encoding import EncodedBodies, encoded
from agent_cli.providers.failures import (
    CallFailed,
    Refusal,
    checked_key,
    refused,
    without_password,
)
from agent_cli.providers.transport import (
    NEVER_SENT,
    Address,
    OpenReply,
    connection_failure,
    http_client,
    open_reply,
)
from agent_cli.system.json_text import json_object
from agent_cli.system.shapes import is_object
from agent_cli.version import __version__

_API_VERSION = "2026-10-21"
# The SDK's order: irrelevant to the API, but recordings and intermediate caches compare bytes.
BODY_FIELDS = (
    "max_tokens",
    "messages",
    "model",
    "cache_control",
    "compaction",
    "diagnostics",
    "fallbacks",
    "inference_geo",
    "metadata",
    "output_config",
    "service_tier",
    "speed",
    "stream",
    "system",
    "thinking",
    "thread",
    "tools",
)


class WireClient:
    """Sends requests with one bearer credential."""

    def __init__(self, connection: Connection, credential: str) -> None:
        self._connection = connection
        self._credential = credential
        self._address = base_url(connection)
        self.base_url = without_password(self._address)
        self._http = http_client(connection, self._address)
        self._bodies = EncodedBodies()

    @asynccontextmanager
    async def post(
        self, parameters: dict[str, Any], *, api_key: str | None
    ) -> AsyncGenerator[OpenReply]:
        """Send a request; see `loop_clients.Client`."""
        credential = api_key or self._credential
        address = Address(
            url=f"{self._address}/v1/messages",
            shown=self.base_url,
            variable=ANTHROPIC.remedies.address,
            request_id="request-id",
        )
        async with open_reply(
            self._http,
            address,
            self._connection,
            headers=_headers(credential, parameters, self._connection.variables),
            body=self._bodies.of(_body(parameters)),
            refusal=lambda response: self._refusal(response, str(parameters["model"])),
            on_sent=self._connection.on_sent,
        ) as opened:
            yield opened

    async def count_tokens(self, parameters: dict[str, Any], *, api_key: str | None) -> int:
        """Count the tokens of a prompt; see `loop_clients.Client`."""
        credential = api_key or self._credential
        body = {name: parameters[name] for name in BODY_FIELDS if name in parameters}
        try:
            response = await self._http.post(
                f"{self._address}/v1/messages/count_tokens",
                headers=_headers(credential, parameters, self._connection.variables),
                content=encoded(body),
            )
        except (httpx2.RequestError, *NEVER_SENT, BaseExceptionGroup) as error:
            raise connection_failure(error, self.base_url, ANTHROPIC.remedies.address) from error
        answer = json_object(response.content) or {}
        tokens = answer.get("input_tokens") if response.is_success else None
        if not isinstance(tokens, int):
            raise self._refusal(response, str(parameters["model"]))
        return tokens

    async def aclose(self) -> None:
        """Close the idle connections."""
        await self._http.aclose()

    def _refusal(self, response: httpx2.Response, model_id: str) -> CallFailed:
        error = _error_object(response)
        details = error.get("details")
        code = details.get("error_code") if isinstance(details, dict) else None
        message = error.get("message") or response.text or f"status {response.status_code}"
        kind = error.get("type")
        refusal = Refusal(
            status=response.status_code,
            message=self._connection.redact(str(message)),
            kind=kind if isinstance(kind, str) else None,
            code=code if isinstance(code, str) else None,
            request_id=response.headers.get("request-id"),
            remedies=ANTHROPIC.remedies,
            model_id=model_id,
            headers=response.headers,
        )
        return refused(refusal)


def headers_of(credential: str, variables: Mapping[str, str]) -> httpx2.Headers:
    """Return the headers of a request without a body; the user's own win over most of them.

    Raises:
        CallFailed: *credential* is not valid in a header.
    """
    headers = httpx2.Headers(
        {
            "accept": "application/json",
            "anthropic-version": _API_VERSION,
            "authorization": f"Bearer {checked_key(credential)}",
        }
    )
    headers.update(custom_headers(variables))
    headers["user-agent"] = f"agent-cli/{__version__}"
    return headers


def _headers(
    credential: str, parameters: Mapping[str, Any], variables: Mapping[str, str]
) -> httpx2.Headers:
    headers = headers_of(credential, variables)
    headers.setdefault("content-type", "application/json")
    if betas := parameters.get("betas"):
        headers["anthropic-beta"] = ",".join(betas)
    return headers


def _body(parameters: Mapping[str, Any]) -> dict[str, Json]:
    known = {"stream": True, **parameters}
    body = {name: known[name] for name in BODY_FIELDS if name in known}
    body |= parameters.get("extra_body", {})
    return body


def _error_object(response: httpx2.Response) -> Mapping[str, Json]:
    error = (json_object(response.content) or {}).get("error")
    return error if is_object(error) else {}
