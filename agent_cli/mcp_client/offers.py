"""The current tools, prompts, resources and instructions of all servers."""

from collections.abc import Collection, Mapping
from itertools import chain
from typing import TYPE_CHECKING

from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import Tool

if TYPE_CHECKING:
    from agent_cli.contracts.servers import ServerPrompt, ServerResource
    from agent_cli.mcp_client.connection import ServerConnection


class Offers:
    """The offers of the servers in `_connections`, which the subclass fills."""

    def __init__(self) -> None:
        """Offer nothing yet."""
        self._connections: dict[str, ServerConnection] = {}

    def tools(self, present: Collection[str] | None = None) -> tuple[Tool, ...]:
        """Return the tools of all servers that are or were ready, sorted by name.

        The tools of a server that died stay: taking them away would cost the prompt cache, and a
        call says what happened.

        Args:
            present: Names of servers; the tools of the others are left out.
        """
        by_name: dict[str, Tool] = {}
        for name, connection in self._connections.items():
            if present is None or name in present:
                for tool in connection.offering.wrapped.tools:
                    by_name.setdefault(tool.name, tool)
        return tuple(by_name[name] for name in sorted(by_name))

    def names_of(self, server: str) -> frozenset[str]:
        """Return the public names of all tools that *server* listed, also of those left out."""
        connection = self._connections.get(server)
        return connection.offering.names if connection else frozenset()

    def absent_tools(self) -> Mapping[str, str]:
        """Return public name → a sentence, for each tool that is left out or withheld."""
        absent: dict[str, str] = {}
        for connection in self._connections.values():
            absent |= connection.offering.wrapped.absent
        return absent

    def leave_out(self, tool: str, reason: str) -> str:
        """Stop offering the tool with the public name *tool*, until its definition changes.

        Args:
            tool: A tool that the model's API refuses.
            reason: Why it does.

        Returns:
            The name of its server, "" if no server offers it.
        """
        servers = self._connections.items()
        return next((name for name, each in servers if each.leave_out(tool, reason)), "")

    def always_loaded(self) -> frozenset[str]:
        """Return the names of the tools that must not be deferred."""
        return frozenset(
            tool.name
            for connection in self._connections.values()
            if connection.config.always_load
            for tool in connection.offering.wrapped.tools
        )

    def schema_of(self, server: str, tool: str) -> dict[str, Json] | None:
        """Return the input schema of a tool as its server listed it, None without such a tool."""
        return self._connection(server).offering.schema_of(tool)

    def instructions(self) -> Mapping[str, str]:
        """Return server → its instructions for the model; untrusted text, at most 2 KB."""
        said = {
            name: connection.offering.instructions for name, connection in self._connections.items()
        }
        return {name: text for name, text in sorted(said.items()) if text}

    def prompts(self) -> tuple["ServerPrompt", ...]:
        """Return the prompts of all servers, by command."""
        listed = (each.offering.catalogue.prompts for each in self._connections.values())
        return tuple(sorted(chain.from_iterable(listed), key=lambda prompt: prompt.command))

    def with_resources(self) -> frozenset[str]:
        """Return the names of the servers that declare resources."""
        connections = self._connections.items()
        return frozenset(name for name, each in connections if each.offering.has_resources)

    def resources(self) -> tuple["ServerResource", ...]:
        """Return the resources of all servers, by server and address."""
        listed = (each.offering.catalogue.resources for each in self._connections.values())
        return tuple(sorted(chain.from_iterable(listed), key=lambda each: (each.server, each.uri)))

    def changes(self) -> Mapping[str, Mapping[str, str]]:
        """Return server → tool → the diff from its approved definition.

        A server's instructions are listed among its tools, under `offering.INSTRUCTIONS`.
        """
        found = {
            name: connection.offering.changed for name, connection in self._connections.items()
        }
        return {name: changed for name, changed in found.items() if changed}

    def _connection(self, name: str) -> "ServerConnection":
        try:
            return self._connections[name]
        except KeyError:
            known = ", ".join(sorted(self._connections)) or "none"
            raise UsageError(f"no MCP server {name!r} is running; there are: {known}") from None
