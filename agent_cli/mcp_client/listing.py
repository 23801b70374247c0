"""List what one server offers, page by page, and again after each change that it reports."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

import mcp_types
from mcp import Client, MCPError
from mcp.client.subscriptions import SubscriptionLost
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from agent_cli.contracts.servers import PromptArgument, ServerPrompt, ServerResource, public_name
from agent_cli.contracts.wording import printable
from agent_cli.mcp_client.config import ServerConfig
from agent_cli.mcp_client.offering import Catalogue, Offering
from agent_cli.mcp_client.reasons import CONNECTION_ERRORS, error_line
from agent_cli.system.logger import logger

# Limit the pages: a server whose last page points at its first would never end.
_PAGES_MAX = 100
_TEXT_MAX = 300
_AGAIN_S = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)
_SETTLE_S = 0.3
"""Servers announce several changes in a row."""
_LINE_LOGGED = 200
_CHANGES = (
    mcp_types.ToolListChangedNotification,
    mcp_types.PromptListChangedNotification,
    mcp_types.ResourceListChangedNotification,
)
Item = TypeVar("Item")
Page = TypeVar("Page", bound=mcp_types.PaginatedResult)
_log = logger(__name__)


class Upkeep:
    """Listens to one server and lists its offers, across reconnections.

    Attributes:
        listed: Set unless the server announced a change that is not listed yet.
    """

    def __init__(
        self,
        config: ServerConfig,
        offering: Offering,
        list_tools: Callable[[Client], Awaitable[tuple[mcp_types.Tool, ...]]],
        on_change: Callable[[], None],
    ) -> None:
        """Listen to nothing yet; *on_change* is called when the offered tools change."""
        self._list_tools = list_tools
        self.listed = asyncio.Event()
        self.listed.set()
        self._config = config
        self._offering = offering
        self._on_change = on_change
        self._stale = asyncio.Event()

    async def attend(self, client: Client, *, until: asyncio.Event) -> None:
        """Keep the server's offers up to date over *client*."""
        try:
            async with asyncio.TaskGroup() as group:
                listening = group.create_task(
                    keep_listening(client, self._note_change, on_open=self._stale.set)
                )
                refreshing = group.create_task(self._refresh(client))
                await until.wait()
                listening.cancel()
                refreshing.cancel()
        finally:
            self.listed.set()

    async def hear(self, message: mcp_types.ServerNotification | Exception) -> None:
        """Handle a change notification, or an invalid line on stdout."""
        if isinstance(message, _CHANGES):
            self._note_change()
        if isinstance(message, ValueError):
            fault = str(message)[:_LINE_LOGGED]
            _log.debug("mcp junk on stdout", server=self._config.name, fault=fault)

    def _note_change(self) -> None:
        self.listed.clear()
        self._stale.set()

    async def _refresh(self, client: Client) -> None:
        """List the offers not needed at the start, then everything again after each change."""
        offers_logging = client.server_capabilities.logging is not None
        if offers_logging and client.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS:
            with contextlib.suppress(*CONNECTION_ERRORS):
                await client.set_logging_level("info")  # pyright: ignore[reportDeprecated] - old servers
        while True:
            try:
                async with asyncio.timeout(self._config.startup_timeout_s):
                    if self._stale.is_set():
                        self._stale.clear()
                        if await self._offering.take(await self._list_tools(client)):
                            self._on_change()
                    before = self._offering.catalogue
                    async for found in catalogues(client, self._config.name, before):
                        self._offering.catalogue = found
            except (TimeoutError, *CONNECTION_ERRORS) as error:
                # Keep the earlier listing.
                _log.info("mcp listing failed", server=self._config.name, fault=error_line(error))
            if not self._stale.is_set():
                self.listed.set()
            await self._stale.wait()
            await asyncio.sleep(_SETTLE_S)


async def list_tools(
    client: Client, on_note: Callable[[str], None] = lambda _note: None
) -> tuple[mcp_types.Tool, ...]:
    """Return all tools of a server; the first of each name wins.

    Args:
        on_note: Called with a sentence if the server has more pages than the limit.
    """
    found: dict[str, mcp_types.Tool] = {}
    cursor: str | None = None
    try:
        async for page in _pages(
            lambda cursor: client.list_tools(cursor=cursor, cache_mode="refresh")
        ):
            cursor = page.next_cursor
            for tool in page.tools:
                found.setdefault(tool.name, tool)
    except MCPError as error:
        # Some servers have tools and do not declare them, so all are asked.
        if client.server_capabilities.tools or error.code != mcp_types.METHOD_NOT_FOUND:
            raise
    if cursor:
        on_note(f"its list of tools does not end; only the first {len(found):,} are used")
    return tuple(found.values())


async def catalogues(client: Client, server: str, before: Catalogue) -> AsyncIterator[Catalogue]:
    """Yield the catalogue of a server anew after each list that it sent.

    Many have resources and no method for templates of them, and some never answer for them. What a
    server does not list stays as it was *before*.
    """
    offers = client.server_capabilities
    plain = tuple(each for each in before.resources if not each.is_template)
    templates = tuple(each for each in before.resources if each.is_template)
    if not offers.resources:
        plain = templates = ()
    prompts: tuple[ServerPrompt, ...] = ()
    if offers.prompts:
        prompts = await _all(
            lambda cursor: client.list_prompts(cursor=cursor),
            lambda page: [_prompt(server, each) for each in page.prompts],
            before.prompts,
        )
    yield Catalogue(prompts, (*plain, *templates))
    if offers.resources:
        plain = await _all(
            lambda cursor: client.list_resources(cursor=cursor),
            lambda page: [_resource(server, each) for each in page.resources],
            plain,
        )
        yield Catalogue(prompts, (*plain, *templates))
        templates = await _all(
            lambda cursor: client.list_resource_templates(cursor=cursor),
            lambda page: [_resource(server, each) for each in page.resource_templates],
            templates,
        )
        yield Catalogue(prompts, (*plain, *templates))


async def _all(
    fetch: Callable[[str | None], Awaitable[Page]],
    in_page: Callable[[Page], Sequence[Item]],
    before: tuple[Item, ...],
) -> tuple[Item, ...]:
    """Return the items of all pages, or those of *before* if the server refuses to list them."""
    try:
        return tuple([each async for page in _pages(fetch) for each in in_page(page)])
    except (MCPError, ValueError) as error:
        _log.info("mcp list refused", fault=error_line(error))
        return before


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
            _log.debug("mcp subscription lost", fault=error_line(error))
        await asyncio.sleep(_AGAIN_S[min(attempt, len(_AGAIN_S) - 1)])
        on_change()


async def _pages(fetch: Callable[[str | None], Awaitable[Page]]) -> AsyncIterator[Page]:
    cursor: str | None = None
    passed: set[str] = set()
    while len(passed) < _PAGES_MAX:
        page = await fetch(cursor)
        yield page
        cursor = page.next_cursor
        if not cursor or cursor in passed:  # for some servers, "" is the end
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
