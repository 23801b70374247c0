"""Requests to one server other than calls: get a prompt, read a resource, complete a value."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TypeVar

from mcp import Client
from mcp_types import PromptReference, ResourceTemplateReference
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.timeline import Block, text_block
from agent_cli.mcp_client.calls import Server, in_session
from agent_cli.mcp_client.content import content_blocks, resource_blocks
from agent_cli.mcp_client.limits import SilenceLimits
from agent_cli.mcp_client.listing import list_tools
from agent_cli.mcp_client.reasons import CONNECTION_ERRORS, error_line

_COMPLETION_LIMIT_S = 2.0
_ROOTS_LIMIT_S = 5
_ANSWER_LIMIT_S = 10.0
"""The limit in seconds on a ping after a request without an answer."""
_BUSY_LIMIT_S = 60.0
"""The time in seconds for work on a cancelled request: many servers do nothing else meanwhile."""
Reply = TypeVar("Reply")


class Requests:
    """Requests to one server other than tool calls."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def get_prompt(self, name: str, arguments: Mapping[str, str]) -> tuple[Block, ...]:
        """Return a prompt with its arguments filled in, as the content of a user message.

        Raises:
            ToolError: The server is not connected, or refused.
        """
        result = await self._ask(
            f"prompt {name}", lambda client: client.get_prompt(name, dict(arguments))
        )
        blocks: list[Block] = []
        for message in result.messages:
            if message.role == "assistant":
                # A user message cannot contain assistant text, so it is marked as an example.
                blocks.append(text_block("(An example of an answer follows.)"))
            blocks += content_blocks([message.content], self._server.host.files_dir())
        return tuple(blocks)

    async def read_resource(self, uri: str) -> tuple[Block, ...]:
        """Return a resource's content.

        Raises:
            ToolError: The server is not connected, or refused.
        """
        result = await self._ask(f"resource {uri}", lambda client: client.read_resource(uri))
        folder = self._server.host.files_dir()
        return tuple(block for part in result.contents for block in resource_blocks(part, folder))

    async def check(self) -> None:
        """Check that the server answers, with a request that every server supports.

        Raises:
            ToolError: It does not answer.
        """
        await self._ask("list of its tools", list_tools)

    async def complete(
        self, name: str, argument: str, value: str, known: Mapping[str, str]
    ) -> tuple[str, ...]:
        """Return completions of *value*; none if the server has no completion, or is slow."""
        reference = (
            ResourceTemplateReference(type="ref/resource", uri=name)
            if "://" in name
            else PromptReference(type="ref/prompt", name=name)
        )
        try:
            async with asyncio.timeout(_COMPLETION_LIMIT_S):
                client = await self._server.client()
                if client.server_capabilities.completions is None:
                    return ()
                typed = {"name": argument, "value": value}
                result = await client.complete(reference, typed, dict(known))
        except (ToolError, TimeoutError, *CONNECTION_ERRORS):
            return ()
        return tuple(result.completion.values)

    async def _ask(self, what: str, do: Callable[[Client], Awaitable[Reply]]) -> Reply:
        """Return the result of *do* with the client; turn any failure into one sentence."""
        name = self._server.config.name
        try:
            async with self._server.silence_limits.limited(self._server.config.call_timeout_s):
                return await in_session(self._server, do)
        except TimeoutError as error:
            raise ToolError(f"MCP server '{name}' did not answer: {what}") from error
        except CONNECTION_ERRORS as error:
            raise ToolError(f"MCP server '{name}', {what}: {error_line(error)}") from error


class Doubt:
    """Whether a server still answers: in doubt after a request that got no answer."""

    def __init__(self, silence_limits: SilenceLimits) -> None:
        self._silence_limits = silence_limits
        self._client: Client | None = None
        self._busy_until = 0.0
        self._asking = asyncio.Lock()

    def begin(self, client: Client, *, busy_s: float) -> None:
        """Doubt *client*, whose server may be at work for *busy_s*: a restart would lose that."""
        self._client = client
        if busy_s:
            now_s = asyncio.get_running_loop().time()
            self._busy_until = now_s + min(busy_s, _BUSY_LIMIT_S)

    async def settle(self, client: Client, *, if_hung: Callable[[], None]) -> None:
        """Ask the server for an answer if *client* is in doubt; without one, call *if_hung*.

        Raises:
            ToolError: *if_hung* raised it; the doubt stays.
        """
        async with self._asking:  # requests side by side ask once
            if self._client is not client:
                return
            busy_s = self._busy_until - asyncio.get_running_loop().time()
            limit_s = max(busy_s, _ANSWER_LIMIT_S)
            if not await _answers(client, self._silence_limits, limit_s):
                if_hung()
            self._client = None


async def _answers(client: Client, limits: SilenceLimits, limit_s: float) -> bool:
    """Return whether a server answers a ping within *limit_s*, be it with an error."""
    version = client.protocol_version
    try:
        async with limits.limited(limit_s):
            if version in HANDSHAKE_PROTOCOL_VERSIONS:
                await client.session.send_ping()  # pyright: ignore[reportDeprecated] - old servers
            else:
                await client.session.send_discover(version)
    except TimeoutError:
        return False
    except CONNECTION_ERRORS:
        pass  # the next request says what is wrong
    return True


async def tell_roots_changed(client: Client) -> None:
    """Tell a server that the roots changed; newer protocols query them each time."""
    if client.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS:
        with suppress(TimeoutError, *CONNECTION_ERRORS):
            async with asyncio.timeout(_ROOTS_LIMIT_S):
                await client.session.send_roots_list_changed()  # pyright: ignore[reportDeprecated]
