"""What approved tools looked like: a tool that changed afterwards is shown to the user first.

A server can pass every check with a harmless tool and change what it says later. A tool is pinned
when it is first called, and the server's instructions with it; before that nobody relied on them.
That a tool only reads is its author's word: it runs unasked once a person has let it run.
"""

import difflib
import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from threading import Lock

from agent_cli.mcp_client.config import ServerConfig
from agent_cli.mcp_client.names import public_name
from agent_cli.mcp_client.private_file import read_private_object, write_private

READS_ONLY = "\nIt says that it only reads: it runs unasked.\n"
"""The end of the definition of such a tool."""

_READING = " only reads"


class Pins:
    """A JSON file: server → tool → the text that was approved."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writing = Lock()

    def pin(self, config: ServerConfig, approved: Mapping[str, str]) -> None:
        """Remember *approved*, tool → definition; callable in any thread.

        Raises:
            SettingsError: The file cannot be read or written.
        """
        self._add(_identity(config), approved)

    def vouch(self, config: ServerConfig, tool: str, definition: str) -> None:
        """Remember that a person let *tool* run, which says that it only reads; as `pin()`."""
        self._add(_identity(config) + _READING, {tool: definition})

    def vouched(self, config: ServerConfig) -> Mapping[str, str]:
        """Return tool → the definition with which a person let it run as one that only reads.

        Raises:
            SettingsError: The file cannot be read.
        """
        return self._read().get(_identity(config) + _READING, {})

    def reads_unasked(self, config: ServerConfig, name: str) -> bool:
        """Return whether a person let the tool with this public *name* run as one that only reads.

        Raises:
            SettingsError: The file cannot be read.
        """
        return any(
            definition.endswith(READS_ONLY) and public_name(config.name, tool) == name
            for tool, definition in self.vouched(config).items()
        )

    def of_server(self, config: ServerConfig) -> Mapping[str, str]:
        """Return tool → the definition that was approved.

        Raises:
            SettingsError: The file cannot be read.
        """
        return self._read().get(_identity(config), {})

    def _add(self, key: str, approved: Mapping[str, str]) -> None:
        # Tools that are first called side by side must not write each other's pins away.
        with self._writing:
            pins = self._read()
            known = pins.setdefault(key, {})
            if not approved.items() <= known.items():
                known.update(approved)
                write_private(self._path, json.dumps(pins, indent=1, sort_keys=True).encode())

    def _read(self) -> dict[str, dict[str, str]]:
        return read_private_object(self._path, remedy="delete it to approve all tools anew")


def difference(tool: str, approved: str, now: str) -> str:
    """Return what changed, as a unified diff."""
    lines = difflib.unified_diff(
        approved.splitlines(), now.splitlines(), f"{tool} (approved)", f"{tool} (now)", lineterm=""
    )
    return "\n".join(lines)


def _identity(config: ServerConfig) -> str:
    """Return the server's name with a hash of what it is: another program is another server."""
    what = json.dumps([config.transport, config.command, config.args, config.url])
    return f"{config.name} {sha256(what.encode(errors='surrogatepass')).hexdigest()[:16]}"
