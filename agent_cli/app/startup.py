"""Determine workspace, trust and settings before anything is built.

Runs before the first prompt, so nothing heavy is imported here.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from agent_cli.app.arguments import Arguments
from agent_cli.contracts.errors import SettingsError, UsageError
from agent_cli.contracts.wording import first_named
from agent_cli.settings import CLAUDE_FILES, Override, WrittenHooks
from agent_cli.settings.environment import Environment, load_environment
from agent_cli.settings.load import Loaded, load_settings
from agent_cli.system import paths
from agent_cli.system.authorship import SessionFolders
from agent_cli.system.paths import real_path
from agent_cli.system.programs import users_path
from agent_cli.terminal.abilities import line_in_answer, meaning
from agent_cli.terminal.first_prompt import FIRST_PROMPT
from agent_cli.trust.store import (
    Standing,
    TrustStore,
    acting_files,
    fingerprint,
    shown_name,
    special_files,
    used_variables,
)

if TYPE_CHECKING:  # imported late, for a quick first prompt
    from agent_cli.added_plugins.plugin import AddedPlugin
    from agent_cli.agents.definitions import AgentDefinition
    from agent_cli.contracts.provider import Provider
    from agent_cli.contracts.tooling import Tool
    from agent_cli.hooks.definition import Hook
    from agent_cli.mcp_client import ServerConfig
    from agent_cli.plugins.api import Plugin

_NAMED_MAX = 4
_CHANGED = "trusted files changed; run `agent-cli trust` in another terminal to trust them again"


class StartupContext(NamedTuple):
    """The workspace, its trust and the settings; `notices` are for the user.

    `pinned` is set if trust covers certain file contents, and not with --trust, which covers any
    content. `guarded` is set if only the guards of the workspace are trusted, because another part
    of its files changed. `lost_guards` are the files of guards that were trusted and changed.
    `servers` are MCP servers that an editor or a Python program passed along; `tools`, `agents`,
    `hooks`, `python_plugins` and the `provider` are a Python program's. `plugins` are those that
    the user added. `ignored` is the one of the notices that names files which do not act, or "".
    """

    arguments: Arguments
    workspace: Path
    trusted: bool
    environment: Environment
    loaded: Loaded
    notices: tuple[str, ...]
    pinned: bool = False
    guarded: bool = False
    lost_guards: tuple[str, ...] = ()
    servers: "tuple[ServerConfig, ...]" = ()
    tools: "tuple[Tool, ...]" = ()
    agents: "tuple[AgentDefinition, ...]" = ()
    hooks: "tuple[Hook, ...]" = ()
    python_plugins: "tuple[Plugin, ...]" = ()
    plugins: "tuple[AddedPlugin, ...]" = ()
    provider: "Provider | None" = None
    ignored: str = ""

    @property
    def can_recall(self) -> bool:
        """Whether the settings leave the model the tool `recall`."""
        from agent_cli.contracts.tooling import RECALL_TOOL

        plugins = self.loaded.settings.plugins
        return plugins.enabled and RECALL_TOOL not in plugins.disabled

    def names(self, setting: str) -> bool:
        """Return whether the caller sets *setting* for this session, and not the files alone."""
        return any(each.key == setting for each in self.arguments.overrides)

    @property
    def folders(self) -> SessionFolders:
        """The folders of this session, to ask `author_of` about a file."""
        return SessionFolders.of(self.workspace, *self.arguments.add_dirs)

    def is_unchanged(self) -> bool:
        """Whether the acting files are unchanged since trusted; check after reading them."""
        return not self.pinned or TrustStore.of_user().is_trusted(self.workspace)

    def guard_objection(self) -> str:
        """Return the reason not to use the guards that were read from the workspace, or "".

        A change of another part of its files is none.
        """
        if not (self.pinned or self.guarded):
            return ""
        try:
            standing = TrustStore.of_user().standing(self.workspace)
        except SettingsError as error:
            return str(error)
        return "" if standing.is_trusted or standing.is_guarded else _CHANGED

    def objection(self) -> str:
        """Return the reason not to use the files read from the workspace, or ""."""
        try:
            return "" if self.is_unchanged() else _CHANGED
        except SettingsError as error:  # a caller leaves out only the files in question
            return str(error)


def start(
    arguments: Arguments,
    *,
    may_ask: bool,
    workspace: Path | None = None,
    copy_of: Path | None = None,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> StartupContext:
    """Determine the workspace, its trust and its settings.

    Args:
        arguments: The command line.
        may_ask: Whether the user can be asked to trust this workspace.
        workspace: The directory the tools work in; None is that of the setting working_directory,
            or the current one.
        copy_of: The directory that the current one is a worktree of: it is trusted here too if the
            acting files are the same.
        variables: Variables that replace those of the process.

    Raises:
        SettingsError: A file cannot be read, or a value is not allowed.
        UsageError: A given path is not a directory, or the current directory no longer exists.
    """
    arguments = arguments._replace(add_dirs=tuple(map(_added_directory, arguments.add_dirs)))
    if workspace or copy_of:
        # Before the settings are read: permission rules are chosen by the folder, too.
        current = Override("working_directory", None, "workspace")
        arguments = arguments._replace(overrides=(*arguments.overrides, current))
    workspace = workspace or _current_directory()
    if copy_of:
        _pass_trust_on(copy_of, workspace)
    startup = _start_in(workspace, arguments, variables, may_ask=may_ask, copy_of=copy_of)
    return _with_plugins(startup)


def _start_in(
    workspace: Path,
    arguments: Arguments,
    variables: Mapping[str, str],
    *,
    may_ask: bool,
    copy_of: Path | None,
) -> StartupContext:
    store = TrustStore.of_user()
    standing = Standing(is_trusted=True)
    if not arguments.trust:
        standing = store.standing(workspace, copy_of=copy_of)
    startup = _read(workspace, arguments, standing, variables)
    setting = startup.loaded.settings.working_directory
    if setting and (elsewhere := _working_directory(setting)) != workspace:
        # As if started there: of this folder, nothing is asked about and nothing counts.
        return _start_in(elsewhere, arguments, variables, may_ask=may_ask, copy_of=copy_of)
    ignored = ""
    if not standing.is_trusted:
        acting = acting_files(workspace)
        decided = _decided(store, workspace, standing, acting) if may_ask else standing
        if decided != standing:
            startup = _read(workspace, arguments, decided, variables)
        if acting and not decided.is_trusted:
            ignored = _ignored(acting, workspace, guarded=decided.is_guarded)
    if not startup.is_unchanged() or startup.guard_objection():
        # A file changed between the two checks, so the settings read may match neither version.
        standing = store.standing(workspace, copy_of=copy_of)
        standing = standing._replace(is_trusted=False, is_guarded=False)
        startup = _read(workspace, arguments, standing, variables)
        ignored = _ignored(acting_files(workspace), workspace)
    notices = (
        *([ignored] if ignored else ()),
        *startup.loaded.notices,
        *_special(workspace),
        *_plain_http(startup.environment),
        *(_first_start() if may_ask else ()),
    )
    return startup._replace(notices=notices, ignored=ignored)


def _with_plugins(startup: StartupContext) -> StartupContext:
    """Return *startup* with the added plugins, and a notice for each that cannot be used."""
    own_settings = startup.loaded.settings.plugins
    if not own_settings.enabled or not paths.plugins_file().is_file():
        return startup
    from agent_cli.added_plugins import PluginStore  # most have none

    found, problems = PluginStore().load()
    used = tuple(each for each in found if each.name not in own_settings.disabled)
    hooks = [
        WrittenHooks(
            event,
            group,
            f"plugin {plugin.name}",
            root=str(plugin.root),
            variables=tuple(plugin.variables.items()),
        )
        for plugin in used
        for event, group in plugin.used_hooks()
    ]
    loaded = startup.loaded
    return startup._replace(
        plugins=used,
        loaded=loaded._replace(hooks=(*loaded.hooks, *hooks)),
        notices=(*startup.notices, *problems),
    )


def _plain_http(environment: Environment) -> tuple[str, ...]:
    """Return a warning if key and conversation would leave this machine unencrypted."""
    addresses = {
        name: url
        for name, url in environment.items()
        # Each cloud has a variable of its own: ANTHROPIC_VERTEX_BASE_URL, ...
        if name.startswith(("ANTHROPIC_", "OPENAI_")) and name.endswith("_BASE_URL")
        if url.lower().startswith("http://")
    }
    if not addresses:
        return ()
    hosts = {name: _host_of(url) for name, url in addresses.items()}
    return tuple(
        f"{name}: http://{host} is not encrypted: the key and the conversation can be read on"
        " the way; use https"
        for name, host in hosts.items()
        if host not in ("localhost", "127.0.0.1", "::1", None)
    )


def _first_start() -> tuple[str, ...]:
    """Return a notice about the setup of another agent, once: the first time a person starts us.

    A file marks that, because a session is no proof: `-p` leaves sessions and shows no notice.
    """
    mark = paths.state_dir() / "setups-named"
    if paths.exists(mark) or paths.is_dir(paths.imported_dir()):
        return ()
    found = [paths.shown(x) for x in (paths.claude_dir(), paths.codex_dir()) if paths.is_dir(x)]
    if not found:
        return ()
    with suppress(OSError):  # then the next start says it again
        paths.private_dir(mark.parent)
        mark.touch(mode=0o600)
    names = " and ".join(found)
    return (f"{names}: `agent-cli import --dry-run` lists what counts here, and what does not",)


def _host_of(url: str) -> str | None:
    """Return the host of *url*; None without one: the first request reports that."""
    from urllib.parse import urlsplit  # rare

    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def _read(
    workspace: Path, arguments: Arguments, standing: Standing, variables: Mapping[str, str]
) -> StartupContext:
    process = {**os.environ, "PATH": users_path(), **variables}
    trusted = standing.is_trusted
    guarded = standing.is_guarded and not trusted
    # What trust does not cover, because it was not asked about, is not read either.
    used = used_variables(workspace) if trusted and not arguments.trust else None
    environment = load_environment(
        process, workspace=workspace, trusted=trusted, guarded=guarded, used=used
    )
    loaded = load_settings(
        environment,
        workspace=workspace,
        trusted=trusted,
        guarded=guarded,
        extra_file=arguments.settings_file,
        overrides=arguments.overrides,
    )
    pinned = trusted and not arguments.trust
    return StartupContext(
        arguments=arguments,
        workspace=workspace,
        trusted=trusted,
        environment=environment,
        loaded=loaded,
        notices=(),
        pinned=pinned,
        guarded=guarded,
        lost_guards=() if trusted else _missed(standing, loaded),
    )


def _missed(standing: Standing, loaded: Loaded) -> tuple[str, ...]:
    """Return the files of lost guards, except files that the user's settings leave out anyway."""
    settings = loaded.settings
    is_read = settings.hooks.claude_files or settings.permissions.claude_files
    return tuple(file for file in standing.lost if is_read or file not in CLAUDE_FILES)


def _decided(
    store: TrustStore, workspace: Path, standing: Standing, acting: Sequence[Path]
) -> Standing:
    """Ask the user to trust the *acting* files, if they were not declined; return the standing."""
    if acting and not store.is_declined(workspace):
        # Fingerprinted before it is shown: a file that changes while the user reads is not trusted.
        shown = fingerprint(workspace)
        answer = _ask(workspace)
        if answer:
            store.trust(workspace, shown)
            return Standing(is_trusted=True, is_known=True)
        if answer is False:
            store.decline(workspace, shown)
    # Without a standing of its own, guards are a copy's: the user has decided against them.
    return standing if standing.is_known else Standing()


def _pass_trust_on(original: Path, copy: Path) -> None:
    """Trust *copy* if the user trusts *original* and exactly the same acts in both."""
    store = TrustStore.of_user()
    if store.is_trusted(original):
        acts = fingerprint(copy)
        if acts == fingerprint(original):
            store.trust(copy, acts)


def _ignored(acting: Sequence[Path], workspace: Path, *, guarded: bool = False) -> str:
    names = first_named([shown_name(path, workspace) for path in acting], _NAMED_MAX)
    held = "; its guards, which did not change, hold" if guarded else ""
    return (
        f"{names} ignored: this workspace is not trusted{held}; `agent-cli trust` or --trust"
        " changes that"
    )


def _special(workspace: Path) -> tuple[str, ...]:
    """Return a notice about devices, pipes and the like that have the name of a file to read."""
    if not (found := special_files(workspace)):
        return ()
    names = first_named([shown_name(path, workspace) for path in found], _NAMED_MAX)
    return (f"{names} left out: {paths.NO_FILE}",)


def _ask(workspace: Path) -> bool | None:
    """Show the files of the workspace that would act, and ask the user whether to trust them.

    Returns:
        None if the user did not answer: then the next start asks again.
    """
    FIRST_PROMPT.set_aside()
    from agent_cli.terminal.writer import print_fitted  # few workspaces are asked about

    print_fitted(f"{workspace} holds files that change what agent-cli does:", sys.stderr)
    from agent_cli.trust.effects import listing, what_would_act

    for line in listing(what_would_act(workspace), workspace):
        print_fitted(line, sys.stderr)
    try:
        while True:
            line = line_in_answer("Trust them, until they change?")
            if not line:  # the end of the input, also of a terminal that is gone
                return None
            answer = meaning(line) if line.strip() else False
            if answer is not None and not FIRST_PROMPT.is_more_typed:
                return answer
            FIRST_PROMPT.keep(line)  # typed for the prompt, or pasted
    except KeyboardInterrupt:
        return None


def _added_directory(path: Path) -> Path:
    if not paths.is_dir(path):
        raise UsageError(f"--add-dir: {path} is not a directory")
    return real_path(path)


def _current_directory() -> Path:
    try:
        return Path.cwd()
    except OSError as error:
        raise UsageError("the current directory is gone: change to one that exists") from error


def _working_directory(setting: str) -> Path:
    path = real_path(paths.expanded(setting))
    if not paths.is_dir(path):
        raise SettingsError(f"working_directory {setting!r} is not a directory")
    return path
