"""The servers that the user switched on or off in a workspace, overriding their entries.

Kept outside the repository, so that a cloned repository cannot enable its own servers.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from agent_cli.mcp_client.private_file import locked, read_private_object, write_private


class Switches:
    """A JSON file: workspace → server → whether it is on.

    Raises:
        SettingsError: The file cannot be read or written, or is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def of(self, workspace: Path) -> Mapping[str, bool]:
        """Return server → whether it is on, for the servers switched in *workspace*."""
        return self._read().get(str(workspace), {})

    def switch(self, workspace: Path, server: str, *, on: bool) -> None:
        """Store that *server* is on or off in *workspace*."""
        with locked(self._path):
            switches = self._read()
            switches.setdefault(str(workspace), {})[server] = on
            write_private(self._path, json.dumps(switches, indent=1, sort_keys=True).encode())

    def _read(self) -> dict[str, dict[str, bool]]:
        return read_private_object(
            self._path, remedy="delete it, then switch servers on or off again"
        )
