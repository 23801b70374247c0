"""Pinned definitions of approved tools: a tool that changed later is shown to the user first.

A server can pass every check with a harmless tool and change it later. A tool is pinned at its
first call, together with the server's instructions. A read-only mark is only its author's claim:
such a tool runs without approval once a person has approved it.
"""

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from agent_cli.mcp_client.names import public_name
from agent_cli.mcp_client.private_file import locked, read_private_object, write_private

if TYPE_CHECKING:
    from agent_cli.mcp_client.config import ServerConfig

READS_ONLY = "\nIt says that it only reads: it runs unasked.\n"
"""The end of the definition of a tool marked read-only."""

_READING = " only reads"


class Pins:
    """A JSON file: server → tool → the approved definition."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def pin(self, config: "ServerConfig", approved: Mapping[str, str]) -> None:
        """Store *approved*, tool → definition; thread-safe.

        Raises:
            SettingsError: The file cannot be read or written.
        """
        self._add(_identity(config), approved)

    def vouch(self, config: "ServerConfig", tool: str, definition: str) -> None:
        """Store that a person approved *tool*, which is marked read-only; as `pin()`."""
        self._add(_identity(config) + _READING, {tool: definition})

    def vouched(self, config: "ServerConfig") -> Mapping[str, str]:
        """Return tool → the definition with which a person approved it as read-only.

        Raises:
            SettingsError: The file cannot be read.
        """
        return self._read().get(_identity(config) + _READING, {})

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
        return self._read().get(_identity(config), {})

    def _add(self, key: str, approved: Mapping[str, str]) -> None:
        if approved.items() <= self._read().get(key, {}).items():
            return
        # Concurrent first calls, also of other sessions, must not overwrite each other's pins.
        with locked(self._path):
            pins = self._read()
            pins.setdefault(key, {}).update(approved)
            write_private(self._path, json.dumps(pins, indent=1, sort_keys=True).encode())

    def _read(self) -> dict[str, dict[str, str]]:
        return read_private_object(self._path, remedy="delete it, then approve all tools again")


def difference(tool: str, approved: str, now: str) -> str:
    """Return the change as a unified diff."""
    import difflib  # noqa: PLC0415 - where a tool changed

    lines = difflib.unified_diff(
        approved.splitlines(), now.splitlines(), f"{tool} (approved)", f"{tool} (now)", lineterm=""
    )
    return "\n".join(lines)


def _identity(config: "ServerConfig") -> str:
    """Return the server's name with a hash of its configuration, to tell programs apart."""
    what = json.dumps([config.transport, config.command, config.args, config.url])
    return f"{config.name} {sha256(what.encode(errors='surrogatepass')).hexdigest()[:16]}"
