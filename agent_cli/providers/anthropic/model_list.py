"""The models a server offers, from its own list: windows, limits, and retirement dates."""

import asyncio
from dataclasses import replace
from typing import Final

import httpx2
from pydantic import BaseModel, ValidationError

from agent_cli.contracts.errors import ModelError
from agent_cli.contracts.listings import OfferedModel
from agent_cli.providers.anthropic.connection import Connection, base_url, known_credential
from agent_cli.providers.anthropic.platforms import ANTHROPIC
from agent_cli.providers.anthropic.wire_client import headers_of
from agent_cli.providers.failures import CallFailed, without_password
from agent_cli.providers.transport import NEVER_SENT, connection_failure, http_client
from agent_cli.system.loading import load

_LIMIT_S: Final = 10.0
_A_PAGE: Final = 1000
_PAGES_MAX: Final = 10


class _Entry(BaseModel):
    """One model; compatible servers send fewer fields."""

    id: str
    display_name: str | None = None
    lifecycle: str | None = None
    retires_at: str | None = None
    max_input_tokens: int | None = None
    max_tokens: int | None = None


class _Page(BaseModel):
    data: list[_Entry]
    has_more: bool = False


async def offered_models(connection: Connection) -> tuple[OfferedModel, ...]:
    """Return the models the server offers, in its order: the newest first.

    Raises:
        ModelError: The server has no such list, or cannot be asked.
    """
    if connection.replay is not None:
        raise ModelError("a recording lists no models")
    if connection.platform is not ANTHROPIC:
        raise ModelError(f"{connection.platform.title} does not list its models here")
    connection = replace(connection, record=None)  # a recording holds only the model's replies
    where = without_password(base_url(connection))
    try:
        async with asyncio.timeout(_LIMIT_S):
            return tuple(map(_offered, await _all(connection, where)))
    except TimeoutError as error:
        raise ModelError(f"{where} did not list its models within {_LIMIT_S:g} s") from error
    except ValidationError as error:
        raise ModelError(f"{where} answered with something that is not a list of models") from error
    except CallFailed as failed:
        raise failed.error from failed


async def _all(connection: Connection, where: str) -> list[_Entry]:
    credential = known_credential(connection)
    if credential is None:
        return await _of_sdk(connection)
    found: list[_Entry] = []
    headers = headers_of(credential, connection.variables)
    async with http_client(connection) as http:
        for _ in range(_PAGES_MAX):
            after = {"after_id": found[-1].id} if found else {}
            try:
                response = await http.get(
                    f"{base_url(connection)}/v1/models",
                    params={"limit": _A_PAGE, **after},
                    headers=headers,
                )
            except (httpx2.RequestError, *NEVER_SENT, BaseExceptionGroup) as error:
                raise connection_failure(error, where, ANTHROPIC.remedies.address) from error
            if not response.is_success:
                raise ModelError(
                    f"{where} does not list its models (status {response.status_code})",
                    status=response.status_code,
                )
            page = _Page.model_validate_json(response.content)
            found += page.data
            if not page.has_more or not page.data:
                break
    return found


async def _of_sdk(connection: Connection) -> list[_Entry]:
    """Return the list with credentials that only the SDK can find."""
    await asyncio.to_thread(load, "agent_cli.providers.anthropic.sdk_client")
    from agent_cli.providers.anthropic.sdk_client import SdkClient  # slow, and rarely needed

    client = SdkClient(connection)
    try:
        return [_Entry.model_validate(each) for each in await client.list_models()]
    finally:
        await client.aclose()


def _offered(entry: _Entry) -> OfferedModel:
    return OfferedModel(
        id=entry.id,
        name=entry.display_name or entry.id,
        lifecycle=entry.lifecycle or "",
        retires_on=(entry.retires_at or "")[:10],
        context_window=entry.max_input_tokens,
        max_output_tokens=entry.max_tokens,
    )
