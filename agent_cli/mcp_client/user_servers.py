"""The user's own servers: one file in the format of `.mcp.json`, edited server by server."""

import json
from collections.abc import Mapping
from pathlib import Path

from agent_cli.contracts.errors import SettingsError, UsageError
from agent_cli.contracts.timeline import Json
from agent_cli.mcp_client.private_file import locked, read_private, write_private
from agent_cli.system import paths
from agent_cli.system.shapes import is_object

_SERVERS = "mcpServers"


def user_file() -> Path:
    """Return the path of the user's server file."""
    return paths.config_dir() / "mcp.json"


class UserServers:
    """The entries in the file, variables unexpanded; other keys of the file are kept.

    Raises:
        SettingsError: The file cannot be read or written, or has the wrong format.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def names(self) -> tuple[str, ...]:
        """Return the names of the servers in the file's order."""
        return tuple(self._servers(self._read()))

    def add(self, entries: Mapping[str, Mapping[str, Json]]) -> tuple[str, ...]:
        """Add those of *entries* whose names are free; return the names of the others."""
        with locked(self.path):
            content = self._read()
            servers = self._servers(content)
            known = tuple(name for name in entries if name in servers)
            new: dict[str, Json] = {
                name: dict(entry) for name, entry in entries.items() if name not in servers
            }
            if new:
                # It may have tokens in `env` and `headers`, so only the user may read it.
                self._write(content | {_SERVERS: servers | new})
        return known

    def remove(self, name: str) -> None:
        """Delete a server.

        Raises:
            UsageError: It is not in the file.
        """
        with locked(self.path):
            content = self._read()
            servers = self._servers(content)
            if name not in servers:
                known = ", ".join(servers) or "none"
                raise UsageError(f"{self.path} has no server {name!r}; it has: {known}")
            self._write(content | {_SERVERS: {k: v for k, v in servers.items() if k != name}})

    def _read(self) -> dict[str, Json]:
        data = read_private(self.path)
        try:
            content: object = json.loads("{}" if data is None else data)
        except ValueError as error:
            raise SettingsError(f"{self.path} is not JSON ({error}); correct it") from error
        if not is_object(content):
            raise SettingsError(f'{self.path} must hold {{"{_SERVERS}": {{name: {{...}}}}}}')
        return content

    def _servers(self, content: Mapping[str, Json]) -> dict[str, Json]:
        servers = content.get(_SERVERS, {})
        if not isinstance(servers, dict):
            raise SettingsError(f'{self.path} must hold {{"{_SERVERS}": {{name: {{...}}}}}}')
        return servers

    def _write(self, content: Mapping[str, Json]) -> None:
        text = json.dumps(content, indent=2, ensure_ascii=False)
        write_private(self.path, f"{text}\n".encode())
