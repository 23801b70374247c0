"""The MCP servers of this program: found in the settings and in the files that may be read."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from agent_cli.app.startup import StartupContext
from agent_cli.contracts.errors import SettingsError
from agent_cli.contracts.permissions import NETWORK, HostContact
from agent_cli.contracts.timeline import Json
from agent_cli.mcp_client.user_servers import Switches, local_file, user_file
from agent_cli.settings import SERVERS_FILE
from agent_cli.settings.environment import Environment
from agent_cli.system import paths
from agent_cli.system.authorship import author_of
from agent_cli.system.paths import real_path
from agent_cli.system.programs import search_path
from agent_cli.system.repositories import in_each, project_folders
from agent_cli.trust.store import acting_files

if TYPE_CHECKING:
    from agent_cli.contracts.servers import ServerState
    from agent_cli.mcp_client.config import ServerConfig, ServerProblem


_NOT_READ = (
    "is not read: others could have written it, as it lies in this repository or a link of it leads"
    " there; look at it, then name it with --mcp-config"
)

_CHANGED = "changed after it was trusted; run `agent-cli trust` to trust it again"


def configured_servers(startup: StartupContext) -> Iterator["ServerConfig | ServerProblem"]:
    """Yield the MCP servers of settings and files; unusable ones as a problem with its reason.

    Raises:
        SettingsError: A file of servers cannot be read.
    """
    switched = switches().of(startup.workspace)
    for server in _found(startup):
        from agent_cli.mcp_client import ServerConfig  # with the first server

        if isinstance(server, ServerConfig) and server.name in switched:
            server = _switched(server, on=switched[server.name])
        yield _reachable(_in_folder(server, startup.workspace), startup)


def server_contacts(
    startup: StartupContext, states: Sequence["ServerState"]
) -> Sequence[HostContact]:
    """Return the hosts of the MCP servers in *states*."""
    from agent_cli.mcp_client import ServerProblem

    reasons = {state.name: state.reason for state in states if state.phase != "disabled"}
    found: list[HostContact] = []
    for server in configured_servers(startup):
        host = server.host if isinstance(server, ServerProblem) else urlsplit(server.url).netloc
        if host and server.name in reasons:
            address, asked_by = host.rpartition("@")[2], f"MCP server {server.name}"
            found.append(HostContact(address, asked_by, reasons[server.name]))
    return found


def _reachable(
    server: "ServerConfig | ServerProblem", startup: StartupContext
) -> "ServerConfig | ServerProblem":
    """Return *server* with the rules about hosts, or a problem if one denies its own host."""
    from agent_cli.mcp_client import ServerConfig, ServerProblem

    if not isinstance(server, ServerConfig) or not server.url:
        return server
    from agent_cli.app.parts import permission_rules  # for servers of the web
    from agent_cli.policies.network_rules import rule_about_host

    rules = permission_rules(startup)

    def objection(host: str, port: int) -> str:
        found = rule_about_host(rules, host, port)
        if found is None or found[0] != "deny" or found[1].tool != NETWORK:
            return ""
        return f"the rule deny {found[1]} ({found[1].origin}) forbids its host"

    server = replace(server, host_objection=objection)
    try:
        parts = urlsplit(server.url)
        host, port = (parts.hostname or "").lower().rstrip("."), parts.port or 443
    except ValueError:  # connecting says what is wrong with it
        return server
    if server.enabled and (reason := objection(host, port)):
        return ServerProblem(server.name, reason, required=server.required, host=host)
    return server


def _in_folder(
    server: "ServerConfig | ServerProblem", folder: Path
) -> "ServerConfig | ServerProblem":
    """Return *server* with its working directory, relative to *folder*."""
    from agent_cli.mcp_client import ServerConfig  # with the first server

    if isinstance(server, ServerConfig) and server.transport == "stdio":
        return replace(server, cwd=str(folder / paths.expanded(server.cwd)))
    return server


def _of_file(
    server: "ServerConfig | ServerProblem",
    startup: StartupContext,
    *,
    is_projects: bool,
    folder: Path | None = None,
) -> "ServerConfig | ServerProblem":
    """Return *server* with the folder for its `headersHelper`, and what may forbid its start.

    One of the user's does not run in the workspace: a relative path could be a program there. One
    of the project's starts, again and again, only while what was trusted is unchanged.
    """
    from agent_cli.mcp_client import ServerConfig  # with the first server

    if not isinstance(server, ServerConfig):
        return server
    if is_projects:
        server = replace(server, objection=startup.objection)
    if not server.headers_helper:
        return server
    return replace(server, cwd=str(folder or startup.workspace) if is_projects else "")


def _switched(server: "ServerConfig", *, on: bool) -> "ServerConfig | ServerProblem":
    if on and server.problem:
        from agent_cli.mcp_client import ServerProblem  # with the first server

        return ServerProblem(server.name, server.problem, server.required)
    return replace(server, enabled=on)


def switches() -> Switches:
    """Return the servers and tools that the user switched on and off."""
    return Switches(paths.state_dir() / "mcp" / "switches.json")


def inherited_environment(startup: StartupContext) -> Mapping[str, str]:
    """Return the base environment of servers; its PATH holds no untrusted directory.

    A project's `.env` is left out, even if trusted: most servers are the user's own.
    """
    environment = startup.environment.without_project()
    path = environment.get("PATH", os.defpath)
    return {**environment, "PATH": search_path(path, outside=stranger(startup))}


def stranger(startup: StartupContext) -> Path | None:
    """Return the workspace if it is untrusted, as its files may come from others; else None.

    A home directory and its parents always count as the user's own.
    """
    own = startup.trusted or real_path(Path.home()).is_relative_to(startup.workspace)
    return None if own else startup.workspace


def is_strangers(path: Path, startup: StartupContext) -> bool:
    """Return whether a stranger whom the user does not trust could have written *path*."""
    return stranger(startup) is not None and author_of(path, startup.folders).author.is_stranger


def _found(startup: StartupContext) -> Iterator["ServerConfig | ServerProblem"]:
    if not startup.loaded.settings.mcp.enabled:
        return
    yield from startup.servers  # first: the client that opened the session takes precedence
    yield from _of_settings(startup)
    yield from _of_plugins(startup)
    yield from _of_files(startup)


def _limits(startup: StartupContext) -> Mapping[str, float]:
    """Return the limits of a server whose entry names none."""
    mcp = startup.loaded.settings.mcp
    return {"startup_timeout_s": mcp.startup_timeout_s, "call_timeout_s": mcp.call_timeout_s}


def _of_settings(startup: StartupContext) -> Iterator["ServerConfig | ServerProblem"]:
    limits = _limits(startup)
    for server in startup.loaded.settings.mcp.servers:
        from agent_cli.mcp_client import server_config  # slow, and often none

        entry = server._asdict() | {"oauth": dict(server.oauth)}
        origin = startup.loaded.origins.get(f"mcp.servers.{server.name}", "")
        is_projects = _is_projects(startup, Path(origin))
        environment = _variables(startup, is_projects=is_projects)
        found = server_config(server.name, entry, environment, source="settings", **limits)
        yield _of_file(found, startup, is_projects=is_projects)


def _of_files(startup: StartupContext) -> Iterator["ServerConfig | ServerProblem"]:
    # The first of each name wins, so files nearer to the workspace precede the user's own.
    named = set(_named(startup))
    may_read = _files(startup)
    by_option = {path: True for path in may_read if path in named}
    local = local_file(startup.workspace)
    imported = {folder / "mcp.json": True for folder in paths.imported_dirs()}
    around = {*in_each(project_folders(startup.workspace), (SERVERS_FILE,))}
    files = {**by_option, local: True, **may_read, user_file(): True, **imported}
    for path, is_allowed in files.items():
        if not _may_exist(path):
            continue
        from agent_cli.mcp_client import ServerProblem, read_config_file

        shown = f"file {path}"
        if not is_allowed:
            yield ServerProblem(shown, f"{path} {_NOT_READ}")
            continue
        if path not in named and paths.is_special(path):  # a shell names a pipe: <(...)
            yield ServerProblem(shown, f"{path} is not read: {paths.NO_FILE}")
            continue
        is_projects = _is_projects(startup, path)  # once: it reads all that trust covers
        environment = _variables(startup, is_projects=is_projects)
        try:
            read = read_config_file(path, environment, **_limits(startup))
        except SettingsError as error:
            if path in named:
                raise
            # The other servers, and the program, still work.
            yield ServerProblem(shown, f"{error}; its servers are left out")
            continue
        if path in acting_files(startup.workspace) and not startup.is_unchanged():
            yield ServerProblem(shown, f"{path} {_CHANGED}")
            continue
        # One of a folder above the workspace runs there: its relative paths are meant so. One of
        # another file, which the user named, runs in the workspace, wherever that file lies.
        folder = path.parent if path in around else startup.workspace
        for server in read.servers:
            found = _of_file(server, startup, is_projects=is_projects, folder=folder)
            yield _in_folder(found, folder)
        yield from read.problems


def _of_plugins(startup: StartupContext) -> Iterator["ServerConfig | ServerProblem"]:
    limits = _limits(startup)
    for plugin in startup.plugins:
        for name, entry in plugin.used_servers():
            from agent_cli.mcp_client import server_config

            environment = {**startup.environment.without_project(), **plugin.variables}
            called = f"plugin_{plugin.name}_{name}"
            source = f"plugin {plugin.name}"
            yield server_config(called, entry, environment, source=source, **limits)


def _may_exist(path: Path) -> bool:
    """Return whether *path* exists; True also if that cannot be determined."""
    try:
        path.stat()
    except FileNotFoundError:
        return False
    except OSError:
        pass
    return True


def _variables(startup: StartupContext, *, is_projects: bool) -> Environment:
    """Return the values of `${NAME}` in a file; none of a project's for the user's own files."""
    return startup.environment if is_projects else startup.environment.without_project()


def _is_projects(startup: StartupContext, file: Path) -> bool:
    return file.is_absolute() and (
        file in acting_files(startup.workspace)
        or author_of(file, startup.folders).author.is_stranger
    )


def _files(startup: StartupContext) -> dict[Path, bool]:
    """Return the files, and whether they may be read: a repository's only if trusted or named.

    Trust covers the content of certain files, and untrusted ones are left out here, as the start
    told. Settings may name others, which are read only if no stranger could have written them.
    """
    files: dict[Path, bool] = {}
    named = set(_named(startup))
    acting = acting_files(startup.workspace)
    names = startup.loaded.settings.mcp.config
    found = [startup.workspace / paths.expanded(name) for name in names]
    if SERVERS_FILE in names:
        found += in_each(project_folders(startup.workspace)[1:], (SERVERS_FILE,))
    for path in found:
        if path in named and not path.exists():
            is_json = os.path.relpath(path, startup.workspace).lstrip().startswith("{")
            why = f"{path} does not exist" if not is_json else "write that JSON into a file"
            raise SettingsError(f"--mcp-config: {why}")
        # `_is_projects` would read all that trust covers again for each file.
        is_users = path not in acting and not author_of(path, startup.folders).author.is_stranger
        if path in named or is_users or (path in acting and startup.trusted):
            files[path] = True
        elif path not in acting and paths.is_file(path):
            files[path] = False
    return files


def servers_of_agent(
    startup: StartupContext, entries: Mapping[str, object], source: Path, folder: Path
) -> Iterator["ServerConfig | ServerProblem"]:
    """Yield the servers that the definition *source* of a subagent brings.

    Args:
        entries: The servers, in the format of `.mcp.json`.
        folder: The directory that the subagent works in.
    """
    if not entries:
        return
    from agent_cli.mcp_client import server_config  # few definitions bring any

    is_projects = _is_projects(startup, source)
    environment = _variables(startup, is_projects=is_projects)
    limits = _limits(startup)
    for name, entry in entries.items():
        server = server_config(name, entry, environment, source=str(source), **limits)
        server = _of_file(server, startup, is_projects=is_projects)
        yield _reachable(_in_folder(server, folder), startup)


def servers_of_program(
    startup: StartupContext, entries: Mapping[str, Mapping[str, Json]]
) -> "Iterator[ServerConfig]":
    """Yield the servers that a Python program gives, in the format of `.mcp.json`.

    Raises:
        SettingsError: An entry cannot be used.
    """
    from agent_cli.mcp_client import ServerConfig  # with the first server

    for server in servers_of_agent(startup, entries, Path("mcp_servers"), startup.workspace):
        if not isinstance(server, ServerConfig):
            raise SettingsError(server.reason)
        yield server


def _named(startup: StartupContext) -> Iterator[Path]:
    """Yield the files given with --mcp-config."""
    for option in startup.arguments.overrides:
        if option.key == "mcp.config" and isinstance(option.value, tuple):
            for name in option.value:
                yield startup.workspace / paths.expanded(str(name))
