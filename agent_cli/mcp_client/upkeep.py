"""Keep a server's offers up to date: list them again whenever it announces a change."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import mcp_types
from mcp import Client
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from agent_cli.mcp_client.config import ServerConfig
from agent_cli.mcp_client.listing import keep_listening, list_catalogue
from agent_cli.mcp_client.offering import Offering
from agent_cli.mcp_client.reasons import CONNECTION_ERRORS, error_line
from agent_cli.system.logger import logger

_SETTLE_S = 0.3
"""Servers announce several changes in a row."""
_LINE_LOGGED = 200
_CHANGES = (
    mcp_types.ToolListChangedNotification,
    mcp_types.PromptListChangedNotification,
    mcp_types.ResourceListChangedNotification,
)
log = logger(__name__)


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
                listening = group.create_task(keep_listening(client, self._note_change))
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
            log.debug("mcp junk on stdout", server=self._config.name, fault=fault)

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
                    self._offering.catalogue = await list_catalogue(client, self._config.name)
            except (TimeoutError, *CONNECTION_ERRORS) as error:
                # Keep the earlier listing.
                log.info("mcp listing failed", server=self._config.name, fault=error_line(error))
            if not self._stale.is_set():
                self.listed.set()
            await self._stale.wait()
            await asyncio.sleep(_SETTLE_S)
