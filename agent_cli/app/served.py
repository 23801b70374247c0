"""The programs behind `agent-cli acp` and `agent-cli mcp serve`: an `App` for each session or call.

A client's model writes the calls, so a call may only restrict what the server was started with: no
other folder, no higher cost limit, no more permissive mode.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from agent_cli.acp.ports import Opening
from agent_cli.acp.schema import McpServer, StdioServer
from agent_cli.app.arguments import Arguments
from agent_cli.app.checks import check_access, check_guards
from agent_cli.app.startup import start
from agent_cli.contracts.errors import SessionNotFound, UsageError
from agent_cli.contracts.permission_modes import stricter
from agent_cli.mcp_server.ports import RunRequest
from agent_cli.settings import Override
from agent_cli.system import paths
from agent_cli.system.paths import real_path
from agent_cli.system.programs import shield_path
from agent_cli.system.redaction import Redactor

if TYPE_CHECKING:
    from agent_cli.app.app import App
    from agent_cli.contracts.listings import SessionInfo
    from agent_cli.mcp_client import ServerConfig
    from agent_cli.session_store import SessionStore
    from agent_cli.settings.extension_settings import McpSettings
    from agent_cli.settings.load import Loaded


# Sessions obey the same rules as in the terminal. An untrusted folder stays untrusted, because a
# client opens folders that its user has not looked at; only `agent-cli trust` or --trust changes
# that.
class EditorProgram:
    """Builds sessions; heavy modules are imported with the first one."""

    def __init__(self, arguments: Arguments) -> None:
        """Read the settings of the directory in which the client started us.

        Args:
            arguments: The options for every session.

        Raises:
            SettingsError: The settings cannot be used.
        """
        self._arguments = arguments
        self._startup = start(arguments, may_ask=False)
        self._secrets = Redactor.of(self._startup.environment)

    @contextmanager
    def logging(self) -> Generator[None]:
        """Keep these settings' logs open; settings of a session's directory do not change them."""
        from agent_cli.app import logs  # not before the handshake is heard

        settings = self._startup.loaded.settings.logging
        sinks = logs.configure(settings, self._secrets, verbose=self._arguments.verbose)
        try:
            yield
        finally:
            sinks.close()

    def hide(self, secret: str) -> None:
        """Keep *secret* out of the logs."""
        self._secrets.learn([secret])

    def warm_up(self) -> None:
        """Import the modules that the first session needs."""
        import agent_cli.app.app  # noqa: F401 # pyright: ignore[reportUnusedImport]

    def check_credentials(self) -> None:
        """Raise NoCredentials unless the environment or the user's files hold credentials."""
        check_access(start(self._arguments, may_ask=False))

    def sessions(self) -> "Sequence[SessionInfo]":
        """Return the saved sessions, the most recently used first."""
        return self._store.list()

    def delete(self, id: str) -> None:
        """Delete the saved session *id*, if there is one.

        Raises:
            SessionError: It is open in another program, or cannot be removed.
        """
        from agent_cli.session_store.upkeep import delete_sessions  # rare

        if _is_saved(id):
            with suppress(SessionNotFound):  # another program was faster
                delete_sessions(self._store, [id])

    @cached_property
    def _store(self) -> "SessionStore":
        """The store, shared by all lists: it reads only changed sessions again."""
        from agent_cli.session_store import SessionStore

        return SessionStore(paths.sessions_dir())

    def build(
        self, opening: Opening, overrides: Sequence[Override] = (), *, one_shot: bool = False
    ) -> "App":
        """Return the program of a session.

        Args:
            opening: The session.
            overrides: Settings for this session only.
            one_shot: No person can be asked.

        Raises:
            NoCredentials, SettingsError, SessionError: As for a start in the terminal there.
            UsageError: A directory does not exist.
        """
        from agent_cli.app.app import App

        for folder in (opening.workspace, *opening.directories):
            if not paths.is_dir(folder):
                raise UsageError(f"{folder} is not a directory")
        for id in (opening.resume, opening.fork):
            if id is not None:  # "" is no session, and must not stand for the latest one
                _require_session(id)
        workspace = opening.workspace.resolve()
        shield_path(workspace)
        arguments = self._arguments._replace(
            add_dirs=(*self._arguments.add_dirs, *opening.directories),
            resume=opening.resume,
            fork=opening.fork,
            overrides=(*self._arguments.overrides, *overrides),
        )
        startup = start(arguments, may_ask=False, workspace=workspace)
        check_guards(startup)
        if not arguments.replay:
            check_access(startup)
        startup = startup._replace(loaded=_waiting_for_servers(startup.loaded))
        mcp = startup.loaded.settings.mcp
        servers = tuple(_server(requested, mcp) for requested in opening.servers)
        startup = startup._replace(servers=servers)
        return App(startup, one_shot=one_shot, log_secrets=self._secrets)


class ServedProgram(EditorProgram):
    """Builds the program of each call."""

    def build_for(self, request: RunRequest) -> "App":
        """Return the program of a call.

        Raises:
            AgentCliError: The call asks for more than the server allows, or an option is invalid.
        """
        if request.session is not None:
            self._require_ours(request.session)
        opening = Opening(self._folder(request.cwd), resume=request.session)
        return self.build(opening, self._overrides(request), one_shot=not request.can_ask)

    def sessions(self) -> "Sequence[SessionInfo]":
        """Return the saved sessions of the server's folders, the most recently used first."""
        return [each for each in super().sessions() if self._is_allowed(Path(each.workspace))]

    def transcript(self, id: str) -> str:
        """Return a session as Markdown, without secrets; raises SessionError."""
        self._require_ours(id)
        from agent_cli.session_store.export import export

        redact = Redactor.of(self._startup.environment).text
        return export(self._store.read(id), "md", redact=redact)

    def _folder(self, requested: str | None) -> Path:
        here = real_path(self._startup.workspace)
        try:
            folder = real_path(here / requested) if requested else here
        except (OSError, ValueError) as error:  # a NUL, or too long
            raise UsageError(f"cwd: {requested!r} is not a path ({error})") from error
        if not self._is_allowed(folder):
            raise UsageError(f"cwd: {folder} is not in {here}, where this server was started")
        return folder

    def _is_allowed(self, folder: Path) -> bool:
        opened = (self._startup.workspace, *self._arguments.add_dirs)
        real = real_path(folder)
        return folder.is_absolute() and any(map(real.is_relative_to, map(real_path, opened)))

    def _require_ours(self, id: str) -> None:
        """Check that the session *id* worked in the server's folders.

        Raises:
            SessionNotFound: It did not, or there is none: a client learns nothing of others.
        """
        if not any(each.id == id for each in self.sessions()):
            raise SessionNotFound(f"session {id!r} does not exist in this folder")

    def _overrides(self, request: RunRequest) -> list[Override]:
        settings = self._startup.loaded.settings
        found: list[Override] = []
        if request.model:
            found.append(Override("model", request.model, "model"))
        if request.max_cost_usd is not None:
            own = settings.max_cost_usd
            cost = min(request.max_cost_usd, own) if own else request.max_cost_usd
            found.append(Override("max_cost_usd", cost, "max_cost"))
        if request.mode is not None:
            own_mode = settings.permissions.mode
            if stricter(request.mode, own_mode) != request.mode:
                raise UsageError(
                    f"permission_mode: {request.mode} allows more than {own_mode}, the server's"
                    f" own; it needs `--permission-mode {request.mode}` before mcp"
                )
            found.append(Override("permissions.mode", request.mode, "permission_mode"))
        return found


def _waiting_for_servers(loaded: "Loaded") -> "Loaded":
    """Return settings with which an editor's first prompt waits for servers as long as `-p` does.

    In a terminal a person types while they start; an editor's first prompt comes at once.
    """
    settings = loaded.settings
    wait_s = max(settings.mcp.first_prompt_wait_s, settings.mcp.headless_wait_s)
    mcp = settings.mcp._replace(first_prompt_wait_s=wait_s)
    return loaded._replace(settings=settings._replace(mcp=mcp))


def _require_session(id: str) -> None:
    """Reject a prefix of an id, which a terminal accepts: a client knows the whole id."""
    if not _is_saved(id):
        raise SessionNotFound(f"there is no session {id!r}")


def _is_saved(id: str) -> bool:
    return "/" not in id and paths.is_file(paths.sessions_dir() / f"{id}.jsonl")


def _server(requested: McpServer, mcp: "McpSettings") -> "ServerConfig":
    """Return a server of the client, unchanged: variables in it are not expanded."""
    from agent_cli.mcp_client import ServerConfig

    named = requested.env if isinstance(requested, StdioServer) else requested.headers
    values = {each.name: each.value for each in named}
    server = ServerConfig(
        name=requested.name,
        startup_timeout_s=mcp.startup_timeout_s,
        call_timeout_s=mcp.call_timeout_s,
    )
    if isinstance(requested, StdioServer):
        return replace(server, command=requested.command, args=requested.args, env=values)
    return replace(server, transport=requested.type, url=requested.url, headers=values)
