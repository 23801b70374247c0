"""Requests to one server other than calls: list page by page, get, read, complete a value."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TypeVar

import mcp_types
from mcp import Client
from mcp.client.subscriptions import SubscriptionLost
from mcp_types import PromptReference, ResourceTemplateReference
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.servers import PromptArgument, ServerPrompt, ServerResource, public_name
from agent_cli.contracts.timeline import Block, text_block
from agent_cli.contracts.wording import printable
from agent_cli.mcp_client.calls import Server, in_session
from agent_cli.mcp_client.content import content_blocks, resource_blocks
from agent_cli.mcp_client.reasons import CONNECTION_ERRORS, error_line
from agent_cli.system.logger import logger
from agent_cli.system.records import dataclass

_COMPLETION_LIMIT_S = 2.0
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


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The prompts and resources of one server, as last listed."""

    prompts: tuple[ServerPrompt, ...] = ()
    resources: tuple[ServerResource, ...] = ()


# Limit the pages: a server whose last page points at its first would never end.
_PAGES_MAX = 100
_TEXT_MAX = 300
_AGAIN_S = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)
log = logger(__name__)
Page = TypeVar("Page", bound=mcp_types.PaginatedResult)


async def list_tools(
    client: Client, on_note: Callable[[str], None] = lambda _note: None
) -> tuple[mcp_types.Tool, ...]:
    """Return all tools of a server; the first of each name wins.

    Args:
        on_note: Called with a sentence if the server has more pages than the limit.
    """
    found: dict[str, mcp_types.Tool] = {}
    cursor: str | None = None
    async for page in _pages(lambda cursor: client.list_tools(cursor=cursor, cache_mode="refresh")):
        cursor = page.next_cursor
        for tool in page.tools:
            found.setdefault(tool.name, tool)
    if cursor is not None:
        on_note(f"its list of tools does not end; only the first {len(found):,} are used")
    return tuple(found.values())


async def list_catalogue(client: Client, server: str) -> Catalogue:
    """Return the prompts and resources of a server, if it declares any."""
    offers = client.server_capabilities
    prompts: list[ServerPrompt] = []
    resources: list[ServerResource] = []
    if offers.prompts:
        async for page in _pages(lambda cursor: client.list_prompts(cursor=cursor)):
            prompts += [_prompt(server, prompt) for prompt in page.prompts]
    if offers.resources:
        async for listed in _pages(lambda cursor: client.list_resources(cursor=cursor)):
            resources += [_resource(server, each) for each in listed.resources]
        async for found in _pages(lambda cursor: client.list_resource_templates(cursor=cursor)):
            resources += [_resource(server, each) for each in found.resource_templates]
    return Catalogue(tuple(prompts), tuple(resources))


async def keep_listening(
    client: Client, on_change: Callable[[], None], *, on_open: Callable[[], None]
) -> None:
    """Call *on_change* when a server of the newest revision reports a change.

    Older servers notify the client's message handler without a subscription. A broken stream is
    opened again, and then counts as a change, since it may have missed one. So may the first have,
    before it was open: then *on_open* is called.
    """
    offers = client.server_capabilities
    tools = bool(offers.tools and offers.tools.list_changed)
    prompts = bool(offers.prompts and offers.prompts.list_changed)
    resources = bool(offers.resources and offers.resources.list_changed)
    if client.protocol_version not in MODERN_PROTOCOL_VERSIONS or not (
        tools or prompts or resources
    ):
        return
    for attempt in range(1000):
        try:
            async with client.listen(
                tools_list_changed=tools,
                prompts_list_changed=prompts,
                resources_list_changed=resources,
            ) as changes:
                on_open()
                async for _change in changes:
                    on_change()
        except (SubscriptionLost, TimeoutError, *CONNECTION_ERRORS) as error:
            log.debug("mcp subscription lost", fault=error_line(error))
        await asyncio.sleep(_AGAIN_S[min(attempt, len(_AGAIN_S) - 1)])
        on_change()


async def _pages(fetch: Callable[[str | None], Awaitable[Page]]) -> AsyncIterator[Page]:
    cursor: str | None = None
    passed: set[str] = set()
    while len(passed) < _PAGES_MAX:
        page = await fetch(cursor)
        yield page
        cursor = page.next_cursor
        if cursor is None or cursor in passed:
            return
        passed.add(cursor)


def _prompt(server: str, prompt: mcp_types.Prompt) -> ServerPrompt:
    return ServerPrompt(
        server=server,
        name=prompt.name,
        command=public_name(server, prompt.name),
        description=_text(prompt.description or prompt.title),
        arguments=tuple(
            PromptArgument(each.name, _text(each.description), bool(each.required))
            for each in prompt.arguments or ()
        ),
    )


def _resource(server: str, each: mcp_types.Resource | mcp_types.ResourceTemplate) -> ServerResource:
    return ServerResource(
        server=server,
        uri=each.uri if isinstance(each, mcp_types.Resource) else each.uri_template,
        name=_text(each.title or each.name),
        description=_text(each.description),
        media_type=_text(each.mime_type),
        is_template=isinstance(each, mcp_types.ResourceTemplate),
    )


def _text(text: str | None) -> str:
    return printable(text or "")[:_TEXT_MAX]
