"""The current tools, prompts and resources of one server, and their approval by the user."""

import asyncio
from collections.abc import Mapping

import mcp_types

from agent_cli.contracts.errors import SettingsError
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import ToolSpec
from agent_cli.mcp_client.calls import Server
from agent_cli.mcp_client.listing import Catalogue
from agent_cli.mcp_client.names import public_name
from agent_cli.mcp_client.pins import difference
from agent_cli.mcp_client.stderr_tail import printable
from agent_cli.mcp_client.tools import Wrapped, definition, wrap_tool, wrap_tools
from agent_cli.system.logger import logger

INSTRUCTIONS = "server instructions"
"""The key of the instructions among the tools, in pins and in reported changes."""
_INSTRUCTIONS_MAX = 2048
log = logger(__name__)


class Offering:
    """A server's tools, prompts and resources as last listed; they outlive the connection.

    Attributes:
        wrapped: The server's tools as tools of the agent.
        has_resources: Whether the server declares that it has resources.
    """

    def __init__(self, server: Server) -> None:
        self.wrapped = Wrapped()
        self.catalogue = Catalogue()
        self.has_resources = False
        self._server = server
        self._instructions = ""
        self._withheld: Mapping[str, str] = {}
        self._refused: dict[str, tuple[ToolSpec, str]] = {}
        self._listed: tuple[mcp_types.Tool, ...] = ()
        self._pinned: set[str] = set()
        self._vouched: dict[str, str] = {}

    @property
    def instructions(self) -> str:
        """The server's instructions for the model, at most 2 KB; "" while withheld."""
        return "" if self._withheld else self._instructions

    @property
    def names(self) -> frozenset[str]:
        """The public names of all listed tools, also of those left out."""
        server = self._server.config.name
        return frozenset(public_name(server, tool.name) for tool in self._listed)

    @property
    def changed(self) -> Mapping[str, str]:
        """The tools and instructions withheld since they changed after approval, with diffs."""
        return {**self.wrapped.changed, **self._withheld}

    def hear(self, instructions: str) -> None:
        """Replace the server's instructions; withhold them if they changed after approval.

        Raises:
            SettingsError: The pins cannot be read.
        """
        now = printable(instructions, keep="\n\t")[:_INSTRUCTIONS_MAX]
        approved = self._server.host.pins.of_server(self._server.config).get(INSTRUCTIONS, now)
        same = approved == now
        self._withheld = {} if same else {INSTRUCTIONS: difference(INSTRUCTIONS, approved, now)}
        self._instructions = now

    async def take(self, tools: tuple[mcp_types.Tool, ...]) -> bool:
        """Replace the offered tools by *tools*; return whether that changes anything.

        Raises:
            SettingsError: The pins cannot be read.
        """
        if tools == self._listed:
            return False
        # Checking a schema takes 2 ms: hundreds of tools would block the event loop.
        wrapped = await asyncio.to_thread(wrap_tools, self._server, tools)
        pins = self._server.host.pins
        self._vouched |= await asyncio.to_thread(pins.vouched, self._server.config)
        self._listed, self.wrapped = tools, self._sendable(wrapped)
        return True

    def leave_out(self, name: str, reason: str) -> bool:
        """Stop offering a tool that the model's API refuses; return whether it was offered.

        It is offered again once its definition has changed.

        Args:
            name: The public name of the tool.
            reason: The API's reason.
        """
        tool = next((each for each in self.wrapped.tools if each.name == name), None)
        if tool is None:
            return False
        self._refused[name] = (tool.spec, reason)
        self.wrapped = self._sendable(self.wrapped)
        return True

    def _sendable(self, wrapped: Wrapped) -> Wrapped:
        """Return *wrapped* without the tools that the model's API has refused."""
        refused = {
            tool.name: self._refused[tool.name][1]
            for tool in wrapped.tools
            if tool.name in self._refused and self._refused[tool.name][0] == tool.spec
        }
        return wrapped.without(refused) if refused else wrapped

    def is_vouched(self, tool: mcp_types.Tool) -> bool:
        """Return whether a person approved *tool* with its current definition."""
        return self._vouched.get(tool.name) == self._definition(tool)

    async def approve(self, tool: mcp_types.Tool, *, by_person: bool) -> None:
        """Pin the current *tool*, once, together with the instructions in force."""
        if by_person and not self.is_vouched(tool):
            self._vouched[tool.name] = now = self._definition(tool)
            try:
                await asyncio.to_thread(
                    self._server.host.pins.vouch, self._server.config, tool.name, now
                )
            except SettingsError as error:
                log.warning("mcp tool not vouched for", tool=tool.name, fault=str(error))
        if tool.name in self._pinned:
            return
        self._pinned.add(tool.name)
        under = {} if self._withheld else {INSTRUCTIONS: self._instructions}
        await self._pin({tool.name: self._definition(tool), **under})

    async def approve_changes(self) -> None:
        """Approve the withheld tools and instructions, and offer them."""
        withheld = {INSTRUCTIONS: self._instructions} if self._withheld else {}
        for tool in self._listed:
            if tool.name in self.wrapped.changed:
                withheld[tool.name] = self._definition(tool)
        await self._pin(withheld)
        wrapped = await asyncio.to_thread(wrap_tools, self._server, self._listed)
        self.wrapped = self._sendable(wrapped)
        self.hear(self._instructions)

    def _definition(self, tool: mcp_types.Tool) -> str:
        return definition(tool, wrap_tool(self._server, tool))

    async def _pin(self, approved: Mapping[str, str]) -> None:
        try:
            await asyncio.to_thread(self._server.host.pins.pin, self._server.config, approved)
        except SettingsError as error:
            log.warning("mcp tools not pinned", tools=", ".join(approved), fault=str(error))

    def schema_of(self, tool: str) -> dict[str, Json] | None:
        """Return the input schema of a tool exactly as the server listed it."""
        return next((dict(each.input_schema) for each in self._listed if each.name == tool), None)
