"""What one server offers at the moment, and what of it the user approved."""

import asyncio
import logging

import mcp_types
import structlog

from agent_cli.errors import SettingsError
from agent_cli.mcp_client.calls import Server
from agent_cli.mcp_client.catalogue import Catalogue
from agent_cli.mcp_client.pins import definition
from agent_cli.mcp_client.tools import Wrapped, wrap_tools
from agent_cli.timeline import Json

log = structlog.wrap_logger(logging.getLogger(__name__))


class Offering:
    """A server's tools, prompts and resources as last listed; they outlive the connection.

    Attributes:
        wrapped: The tools as ours.
        instructions: What the server wants the model to know, without hidden characters.
    """

    def __init__(self, server: Server) -> None:
        self.wrapped = Wrapped()
        self.catalogue = Catalogue()
        self.instructions = ""
        self._server = server
        self._listed: tuple[mcp_types.Tool, ...] = ()
        self._pinned: set[str] = set()

    def take(self, tools: tuple[mcp_types.Tool, ...]) -> bool:
        """Offer *tools* from now on; return whether that changes anything.

        Raises:
            SettingsError: What was approved cannot be read.
        """
        if tools == self._listed:
            return False
        wrapped = wrap_tools(self._server, tools)
        self._listed, self.wrapped = tools, wrapped
        return True

    async def approve(self, tool: mcp_types.Tool) -> None:
        """Pin *tool* as it is, once."""
        if tool.name in self._pinned:
            return
        self._pinned.add(tool.name)
        text = definition(tool.name, tool.description or "", tool.input_schema)
        try:
            await asyncio.to_thread(
                self._server.host.pins.pin, self._server.config, tool.name, text
            )
        except SettingsError as error:
            log.warning("mcp tool not pinned", tool=tool.name, fault=str(error))

    async def approve_changes(self) -> None:
        """Approve the tools that are withheld, and offer them."""
        for tool in self._listed:
            if tool.name in self.wrapped.changed:
                self._pinned.discard(tool.name)
                await self.approve(tool)
        self.wrapped = wrap_tools(self._server, self._listed)

    def schema_of(self, tool: str) -> dict[str, Json] | None:
        """Return the input schema of a tool exactly as the server listed it."""
        return next((dict(each.input_schema) for each in self._listed if each.name == tool), None)
