"""Read the MCP servers of other programs and convert them to entries in our format.

Knows the files and formats of Claude Code, Claude Desktop, VS Code, Cursor and Codex, and the
formats of OpenCode and Zed. Never writes; servers that cannot be converted are left out, with the
reason.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from agent_cli.contracts.timeline import Json
from agent_cli.system.json_text import load_commented
from agent_cli.system.records import dataclass, field
from agent_cli.system.shapes import is_object

# A default, ${NAME:-...}, is also valid in our format.
_FOREIGN_VARIABLE = re.compile(r"\$\{(\w+:(?!-)[^}]{0,200}|workspace\w*)\}")
# OpenCode writes {env:NAME}.
_ENV_VARIABLE = re.compile(r"\$?\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_COPIED = (
    *("command", "args", "env", "cwd", "url", "headers", "type", "timeout", "disabled"),
    *("headersHelper", "oauth", "alwaysLoad", "enabled_tools", "disabled_tools"),
)
_LOST = {"envFile": "write its variables into env"}


@dataclass(frozen=True, slots=True)
class ForeignServers:
    """The servers in one file of another program: converted, or left out with a reason.

    Attributes:
        path: The file.
        entries: The servers of the user, or of the project whose file it is.
        local: The user's servers for this workspace alone.
        elsewhere: The names of servers for another directory alone, by directory.
        problems: Sentences about the servers that were left out.
    """

    path: Path
    entries: Mapping[str, Mapping[str, Json]] = field(default_factory=dict[str, Mapping[str, Json]])
    local: Mapping[str, Mapping[str, Json]] = field(default_factory=dict[str, Mapping[str, Json]])
    elsewhere: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    problems: tuple[str, ...] = ()


def foreign_files(
    program: str, *, home: Path, workspace: Path, environment: Mapping[str, str]
) -> tuple[Path, ...]:
    """Return the files in which *program* may keep its servers, the project's own file first."""
    mac = home / "Library" / "Application Support"
    config = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    codex = Path(environment.get("CODEX_HOME") or home / ".codex")
    files = {
        "claude-code": (home / ".claude.json",),
        "claude-desktop": tuple(
            folder / "Claude" / "claude_desktop_config.json" for folder in (mac, config)
        ),
        "vscode": (
            *(workspace / ".vscode" / name for name in ("mcp.json", "settings.json")),
            *(
                folder / "Code" / "User" / name
                for folder in (mac, config)
                for name in ("mcp.json", "settings.json")
            ),
        ),
        "cursor": (workspace / ".cursor" / "mcp.json", home / ".cursor" / "mcp.json"),
        "codex": (workspace / ".codex" / "config.toml", codex / "config.toml"),
    }
    return files[program]


PROGRAMS = ("claude-code", "claude-desktop", "vscode", "cursor", "codex")


def read_foreign(path: Path, *, workspace: Path) -> ForeignServers:
    """Return the servers in a file of another program; its content tells its format."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        content = tomllib.loads(text) if path.suffix == ".toml" else load_commented(text)
    except (OSError, ValueError, RecursionError) as error:
        return ForeignServers(path, problems=(f"{path} cannot be read: {error}",))
    if not is_object(content):
        return ForeignServers(path)
    problems: list[str] = []
    entries = _converted(servers_in(content), path, workspace, problems)
    # Claude Code keeps servers of the "local" scope per project directory.
    projects = content.get("projects")
    servers = {
        folder: found["mcpServers"]
        for folder, found in (projects.items() if is_object(projects) else ())
        if is_object(found) and is_object(found.get("mcpServers"))
    }
    own = servers.pop(str(workspace), {})
    local = _converted(own, path, workspace, problems)
    elsewhere = {folder: [*others] for folder, others in servers.items() if others}
    return ForeignServers(path, entries, local, elsewhere, tuple(problems))


def _converted(
    servers: Mapping[str, Json], path: Path, workspace: Path, problems: list[str]
) -> Mapping[str, Mapping[str, Json]]:
    """Return *servers* in our format; note each that is left out in *problems*."""
    entries: dict[str, Mapping[str, Json]] = {}
    for name, server in servers.items():
        if not isinstance(server, dict):
            continue
        problems += [
            f"{name}: {key} is lost: {_LOST[key]}; {path}" for key in _LOST if key in server
        ]
        entry = _rewritten(dict(_entry(in_own_words(server))), workspace)
        if unknown := _FOREIGN_VARIABLE.search(json.dumps(entry)):
            problems.append(f"{name} is left out: {unknown[0]} is not supported; {path}")
        else:
            entries[str(name)] = entry
    return entries


def servers_in(content: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return the entries of a file, without entries for single directories."""
    keys = ("mcpServers", "servers", "mcp_servers", "context_servers")
    nested = content.get("mcp")  # OpenCode's servers, or what has those of older VS Code versions
    holder = nested if is_object(nested) and "servers" in nested else content
    servers: object = next((holder[key] for key in keys if key in holder), nested)
    return servers if is_object(servers) else {}


def entry_in(written: object, name: str) -> dict[str, Json] | None:
    """Return the entry of *name* in our format, None without one.

    Pages of servers show an entry, or a whole file of one.
    """
    if is_object(written) and (servers := servers_in(written)):
        only = next(iter(servers.values())) if len(servers) == 1 else None
        written = servers.get(name, only)
    return in_own_words(written) if is_object(written) else None


def in_own_words(server: Mapping[str, Json]) -> dict[str, Json]:
    """Return an entry of OpenCode, whose command is a list, or of Zed, a table, in our format."""
    entry = dict(server)
    command = entry.get("command")
    if isinstance(command, list) and command:
        entry |= {"command": command[0], "args": command[1:]}
    elif isinstance(command, dict) and "path" in command:
        entry |= command
        entry["command"] = entry.pop("path")
    if (environment := entry.pop("environment", None)) is not None:
        entry["env"] = environment
    if entry.get("type") in ("local", "remote"):
        entry.pop("timeout", None)  # it limits the listing of the tools
    rewritten: dict[str, Json] = json.loads(_ENV_VARIABLE.sub(r"${\1}", json.dumps(entry)))
    return rewritten


def _entry(server: Mapping[str, Json]) -> Iterator[tuple[str, Json]]:
    """Yield the keys and values of an entry in our format; Codex has other names for some keys."""
    for key in _COPIED:
        if key in server:
            yield key, server[key]
    headers: dict[str, Json] = {}
    if isinstance(plain := server.get("http_headers"), dict):
        headers |= plain
    if isinstance(named := server.get("env_http_headers"), dict):
        headers |= {header: f"${{{variable}}}" for header, variable in named.items()}
    if isinstance(token := server.get("bearer_token_env_var"), str):
        headers["Authorization"] = f"Bearer ${{{token}}}"
    if headers:
        yield "headers", headers
    if server.get("enabled") is False:
        yield "disabled", True
    oauth, auth = server.get("oauth"), server.get("auth")
    more: dict[str, Json] = {}
    if isinstance(auth, dict):  # Cursor's key names
        names = {"CLIENT_ID": "clientId", "CLIENT_SECRET": "clientSecret", "scopes": "scopes"}
        more = {ours: auth[theirs] for theirs, ours in names.items() if theirs in auth}
    names = {"scopes": "scopes", "oauth_resource": "resource"}
    more |= {ours: server[theirs] for theirs, ours in names.items() if theirs in server}
    if more:
        yield "oauth", {**(oauth if isinstance(oauth, dict) else {}), **more}
    if isinstance(limit_ms := server.get("startup_timeout_ms"), int) and limit_ms < 10**12:
        yield "startup_timeout_s", limit_ms / 1000
    for theirs, ours in (
        ("startup_timeout_sec", "startup_timeout_s"),
        ("tool_timeout_sec", "call_timeout_s"),
    ):
        if theirs in server:
            yield ours, server[theirs]


def _rewritten(entry: dict[str, Json], workspace: Path) -> dict[str, Json]:
    """Return *entry* with variables in our syntax."""
    text = json.dumps(entry).replace("${userHome}", "${HOME}")
    folder = json.dumps(str(workspace))[1:-1]
    rewritten: dict[str, Json] = json.loads(text.replace("${workspaceFolder}", folder))
    return rewritten
