"""What approved tools looked like: a tool that changed afterwards is shown to the user first.

A server can pass every check with a harmless tool and change what it says later. A tool is pinned
when it is first called; before that nobody relied on it.
"""

import difflib
import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from agent_cli.errors import SettingsError
from agent_cli.mcp_client.config import ServerConfig
from agent_cli.mcp_client.private_file import read_private, write_private
from agent_cli.timeline import Json


class Pins:
    """A JSON file: server → tool → the text that was approved."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def pin(self, config: ServerConfig, tool: str, definition: str) -> None:
        """Remember *definition* as approved.

        Raises:
            SettingsError: The file cannot be read or written.
        """
        pins = self._read()
        known = pins.setdefault(_identity(config), {})
        if known.get(tool) != definition:
            known[tool] = definition
            write_private(self._path, json.dumps(pins, indent=1, sort_keys=True).encode())

    def of_server(self, config: ServerConfig) -> Mapping[str, str]:
        """Return tool → the definition that was approved.

        Raises:
            SettingsError: The file cannot be read.
        """
        return self._read().get(_identity(config), {})

    def _read(self) -> dict[str, dict[str, str]]:
        data = read_private(self._path)
        if data is None:
            return {}
        try:
            stored = json.loads(data)
        except ValueError:
            stored = None
        if not isinstance(stored, dict):
            raise SettingsError(f"{self._path} is damaged; delete it to approve all tools anew")
        return stored


def definition(name: str, description: str, schema: Json) -> str:
    """Return what is pinned of a tool: all of it the model reads, as text that can be compared."""
    return f"{name}\n\n{description}\n\n{json.dumps(schema, indent=2, sort_keys=True)}\n"


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
