"""Renew the tokens of a sign-in once for all its users.

Refresh tokens are often valid once, and many servers end the whole sign-in at a second use. So a
process renews alone (a file lock), reads the stored sign-in again first, and uses the tokens of a
process that was faster.
"""

import asyncio
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from http import HTTPStatus
from typing import Final, TypeAlias

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import OAuthToken
from pydantic import TypeAdapter, ValidationError

from agent_cli.mcp_client.reasons import SignInUnavailable, error_line
from agent_cli.mcp_client.token_storage import Storage, present_fields, without_refresh
from agent_cli.system.json_text import json_object
from agent_cli.system.logger import logger

_log = logger(__name__)
EXCHANGE_LIMIT_S: Final = 30.0
Exchange: TypeAlias = Callable[[httpx2.Request], Awaitable[httpx2.Response]]
"""Sends one request to the authorization server and returns its whole response."""
_ANSWER: Final = TypeAdapter(dict[str, object])


class Renewed(Enum):
    """The outcome of a renewal: no token, another call's or process's token, or a new token."""

    NOT = auto()
    TAKEN_OVER = auto()
    REFRESHED = auto()


class Renewal:
    """The renewals of one sign-in, one at a time, for all its calls.

    A renewal is not cancelled with the call that needs it: the server may have replaced the refresh
    token already, and only its answer has the next one.
    """

    def __init__(
        self,
        storage: Storage,
        flow: OAuthClientProvider,
        exchange: Exchange,
        tasks: asyncio.TaskGroup,
    ) -> None:
        """Renew the tokens in *storage* for *flow*, in *tasks*."""
        self._storage = storage
        self._flow = flow.context
        self._exchange = exchange
        self._tasks = tasks
        self._task: asyncio.Task[Renewed | SignInUnavailable] | None = None
        self._spent = ""

    @property
    def is_due(self) -> bool:
        """Whether the access token should be renewed before it is used, and can be."""
        return bool(self._storage.is_due and self._refresh_token)

    @property
    def _refresh_token(self) -> str:
        tokens = self._storage.record.tokens
        token = (tokens.refresh_token or "") if tokens else ""
        return token if token != self._spent and self._flow.client_info else ""

    async def renew(self, used: str) -> Renewed:
        """Replace the access token *used*, "" without one.

        Raises:
            SignInUnavailable: The authorization server does not answer; the sign-in is kept.
        """
        if self._task is None or self._task.done():
            tokens = self._flow.current_tokens
            if tokens and tokens.access_token not in ("", used):
                return Renewed.TAKEN_OVER  # another call was faster
            self._task = self._tasks.create_task(self._outcome(used))
        outcome = await asyncio.shield(self._task)
        if isinstance(outcome, SignInUnavailable):
            raise outcome
        return outcome

    async def _outcome(self, used: str) -> Renewed | SignInUnavailable:
        try:
            async with self._storage.alone():
                return await self._replaced(used)
        except SignInUnavailable as error:
            return error
        except TimeoutError:
            return SignInUnavailable("another agent-cli is renewing the sign-in; try again later")

    async def _replaced(self, used: str) -> Renewed:
        if await self._taken_over(used):
            return Renewed.TAKEN_OVER
        token = self._refresh_token
        if not token:
            self._flow.clear_tokens()
            return Renewed.NOT
        response = await self._answer(self._request(token, self._storage.record.requested_scope))
        if self._storage.record.requested_scope and _is_about_the_request(response):
            response = await self._answer(self._request(token, None))
        if response.is_success and await self._took(response):
            return Renewed.REFRESHED
        if await self._taken_over(used):
            return Renewed.TAKEN_OVER  # by a program that knows nothing of our lock
        self._spent = token
        self._flow.clear_tokens()
        return Renewed.NOT

    async def _taken_over(self, used: str) -> bool:
        """Read the stored sign-in again; return whether it has a token other than *used*."""
        if not await self._storage.read_again():
            return False
        tokens = self._storage.record.tokens
        self._flow.client_info = self._storage.record.client or self._flow.client_info
        self._flow.current_tokens = without_refresh(tokens) if tokens else None
        return bool(tokens and tokens.access_token != used and not self._storage.is_expired)

    async def _answer(self, request: httpx2.Request) -> httpx2.Response:
        try:
            async with asyncio.timeout(EXCHANGE_LIMIT_S):
                response = await self._exchange(request)
        except (httpx2.RequestError, TimeoutError) as error:
            raise SignInUnavailable(
                "its authorization server could not be reached when the token was to be renewed"
                f" ({error_line(error)}); try again later"
            ) from error
        status = response.status_code
        if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            # The refresh token is still valid, so it is kept.
            raise SignInUnavailable(
                f"its authorization server answered HTTP {status} when the token was to be renewed;"
                " try again later"
            )
        return response

    def _request(self, refresh_token: str, scope: str | None) -> httpx2.Request:
        """Return the request for new tokens. Source: RFC 6749 section 6, RFC 8707 section 2.2.

        Without the scope of the sign-in, Microsoft Entra ID refuses, or grants something else.
        """
        flow = self._flow
        metadata = flow.oauth_metadata
        url = httpx2.URL(flow.get_authorization_base_url(flow.server_url)).join("/token")
        if metadata and metadata.token_endpoint:
            url = httpx2.URL(str(metadata.token_endpoint))
        assert flow.client_info is not None
        form = {
            "grant_type": "refresh_token",
            "refresh_token": refresh_token,
            "client_id": flow.client_info.client_id,
        }
        if flow.should_include_resource_param(flow.protocol_version):
            form["resource"] = flow.get_resource_url()
        if scope:
            form["scope"] = scope
        form, headers = flow.prepare_token_auth(form, {})
        return httpx2.Request("POST", url, data=form, headers=headers)

    async def _took(self, response: httpx2.Response) -> bool:
        """Store the tokens of *response*; return whether it has any."""
        before = self._storage.record.tokens
        # What the answer leaves out stays as it was. Whether a token is bound is known to `dpop`.
        kept = before.model_dump(include={"scope", "refresh_token"}) if before else {}
        try:
            answer = present_fields(_ANSWER.validate_json(response.content))
            tokens = OAuthToken.model_validate({**kept, **answer, "token_type": "Bearer"})
        except ValidationError as error:
            _log.warning("mcp refresh not readable", fault=error_line(error))
            return False
        self._flow.current_tokens = without_refresh(tokens)
        await self._storage.renewed(tokens)
        return True


def _is_about_the_request(response: httpx2.Response) -> bool:
    """Return whether *response* refuses a request, e.g. for its scope, and not its token."""
    found = json_object(response.content) or {}
    return response.status_code == HTTPStatus.BAD_REQUEST and found.get("error") != "invalid_grant"
