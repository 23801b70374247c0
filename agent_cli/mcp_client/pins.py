"""The definitions of approved tools, to notice a later change.

A server can pass every check with a harmless tool and change it later. A tool is pinned at its
first call, together with the server's instructions. A read-only mark is only its author's claim:
such a tool runs without approval once a person has approved it.
"""

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from agent_cli.contracts.servers import public_name
from agent_cli.mcp_client.stored_files import PrivateTable

if TYPE_CHECKING:
    from agent_cli.mcp_client.config import ServerConfig

READS_ONLY = "\nIt says that it only reads: it runs unasked.\n"
"""The end of the definition of a tool marked read-only."""

_READING = " only reads"


class Pins:
    """A private table: server → tool → the approved definition."""

    def __init__(self, path: Path) -> None:
        self._table = PrivateTable(path, remedy="delete it, then approve all tools again")

    def pin(self, config: "ServerConfig", approved: Mapping[str, str]) -> None:
        """Store *approved*, tool → definition; thread-safe.

        Raises:
            SettingsError: The file cannot be read or written.
        """
        self._table.update(_identity(config), approved)

    def vouch(self, config: "ServerConfig", tool: str, definition: str) -> None:
        """Store that a person approved *tool*, which is marked read-only; as `pin()`."""
        self._table.update(_identity(config) + _READING, {tool: definition})

    def vouched(self, config: "ServerConfig") -> Mapping[str, str]:
        """Return tool → the definition with which a person approved it as read-only.

        Raises:
            SettingsError: The file cannot be read.
        """
        return self._table.of(_identity(config) + _READING)

    def reads_unasked(self, config: "ServerConfig", name: str) -> bool:
        """Return whether a person approved the tool with this public *name* as read-only.

        Raises:
            SettingsError: The file cannot be read.
        """
        return any(
            definition.endswith(READS_ONLY) and public_name(config.name, tool) == name
            for tool, definition in self.vouched(config).items()
        )

    def of_server(self, config: "ServerConfig") -> Mapping[str, str]:
        """Return tool → the approved definition.

        Raises:
            SettingsError: The file cannot be read.
        """
        return self._table.of(_identity(config))


def difference(tool: str, approved: str, now: str) -> str:
    """Return the change as a unified diff."""
    import difflib  # where a tool changed

    lines = difflib.unified_diff(
        approved.splitlines(), now.splitlines(), f"{tool} (approved)", f"{tool} (now)", lineterm=""
    )
    return "\n".join(lines)


def _identity(config: "ServerConfig") -> str:
    """Return the server's name with a hash of its configuration, to tell programs apart."""
    what = json.dumps([config.transport, config.command, config.args, config.url])
    return f"{config.name} {sha256(what.encode(errors='surrogatepass')).hexdigest()[:16]}"
