"""Servers that the user adds, edits and switches on or off, in files of their own.

The user's own stand in two private files: one for every directory, one for the workspace. The
project's `.mcp.json` is an ordinary file that others read too.
"""

import json
import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Literal, TypeAlias

from agent_cli.contracts.errors import SettingsError, UsageError
from agent_cli.contracts.timeline import Json
from agent_cli.mcp_client.stored_files import PrivateTable, locked, read_private, write_private
from agent_cli.system import paths
from agent_cli.system.json_text import not_json
from agent_cli.system.private_files import replace_content
from agent_cli.system.shapes import is_object

Scope: TypeAlias = Literal["local", "project", "user"]
_SERVERS = "mcpServers"


def user_file() -> Path:
    """Return the path of the user's server file."""
    return paths.config_dir() / "mcp.json"


def local_file(workspace: Path) -> Path:
    """Return the path of the user's server file for one workspace."""
    return paths.config_dir() / "mcp-local" / f"{_digest(workspace)}.json"


def project_file(workspace: Path) -> Path:
    """Return the path of the project's server file."""
    return workspace / ".mcp.json"


def _digest(workspace: Path) -> str:
    return sha256(os.fsencode(paths.real_path(workspace))).hexdigest()[:16]


class UserServers:
    """The entries in the file, variables unexpanded; other keys of the file are kept.

    Raises:
        SettingsError: The file cannot be read or written, or has the wrong format.
    """

    def __init__(self, path: Path, *, is_private: bool = True) -> None:
        """Read nothing yet; unless *is_private*, the file and its folder keep their modes."""
        self.path = path
        self._is_private = is_private
        locks = paths.state_dir() / "mcp" / _digest(path)
        self._lock = path if is_private else locks

    @classmethod
    def of_scope(cls, scope: Scope, workspace: Path) -> "UserServers":
        """Return the servers of *scope*: "local" ones are the user's in this workspace."""
        if scope == "project":
            return cls(project_file(workspace), is_private=False)
        return cls(local_file(workspace) if scope == "local" else user_file())

    def names(self) -> tuple[str, ...]:
        """Return the names of the servers in the file's order."""
        return tuple(self._servers(self._read()))

    def add(self, entries: Mapping[str, Mapping[str, Json]]) -> tuple[str, ...]:
        """Add the *entries* whose names are free; return the names that are taken."""
        with locked(self._lock):
            content = self._read()
            servers = self._servers(content)
            known = tuple(name for name in entries if name in servers)
            new: dict[str, Json] = {
                name: dict(entry) for name, entry in entries.items() if name not in servers
            }
            if new:
                self._write(content | {_SERVERS: servers | new})
        return known

    def remove(self, name: str) -> None:
        """Delete a server.

        Raises:
            UsageError: It is not in the file.
        """
        with locked(self._lock):
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
            sentence = f"{not_json(self.path, error)}; correct it, and leave out comments"
            raise SettingsError(sentence) from error
        if not is_object(content):
            raise SettingsError(f'{self.path} must hold {{"{_SERVERS}": {{name: {{...}}}}}}')
        return content

    def _servers(self, content: Mapping[str, Json]) -> dict[str, Json]:
        servers = content.get(_SERVERS, {})
        if not isinstance(servers, dict):
            raise SettingsError(f'{self.path} must hold {{"{_SERVERS}": {{name: {{...}}}}}}')
        return servers

    def _write(self, content: Mapping[str, Json]) -> None:
        data = f"{json.dumps(content, indent=2, ensure_ascii=False)}\n".encode()
        if self._is_private:
            # It may have tokens in `env` and `headers`, so only the user may read it.
            write_private(self.path, data)
            return
        try:
            _replace(self.path, data)
        except OSError as error:
            raise SettingsError(f"{self.path} cannot be written: {error.strerror}") from error


def _replace(path: Path, data: bytes) -> None:
    """Replace the content of a project's file; it keeps its mode.

    Raises:
        OSError: It is not written, or it is a link: another file would be meant.
    """
    if path.is_symlink():
        raise OSError(0, "it is a link; edit the file that it leads to")
    replace_content(path, data)


# The servers that the user switched on or off in a workspace, overriding their entries.
#
# Kept outside the repository, so that a cloned repository cannot enable its own servers.


class Switches:
    """A private table: workspace → server → whether it is on."""

    def __init__(self, path: Path) -> None:
        remedy = "delete it, then switch servers on or off again"
        self._table = PrivateTable(path, remedy=remedy)

    def of(self, workspace: Path) -> Mapping[str, bool]:
        """Return server → whether it is on, for the servers switched in *workspace*."""
        return self._table.of(str(workspace))

    def switch(self, workspace: Path, server: str, *, on: bool) -> None:
        """Store that *server* is on or off in *workspace*."""
        self._table.update(str(workspace), {server: on})
