"""The program behind `agent-cli acp`: one `App` for each session a client opens.

Sessions obey the same rules as in the terminal. An untrusted folder stays untrusted, because a
client opens folders that its user has not looked at; only `agent-cli trust` or --trust changes
that.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from agent_cli.acp.ports import Opening
from agent_cli.acp.schema import McpServer, StdioServer
from agent_cli.app.arguments import Arguments
from agent_cli.app.checks.access import check_access, check_guards
from agent_cli.app.startup import start
from agent_cli.contracts.errors import SessionNotFound, UsageError
from agent_cli.settings.sources import Override
from agent_cli.system import paths
from agent_cli.system.programs import shield_path
from agent_cli.system.redaction import Redactor

if TYPE_CHECKING:
    from agent_cli.app.app import App
    from agent_cli.contracts.listings import SessionInfo
    from agent_cli.mcp_client import ServerConfig
    from agent_cli.session_store import SessionStore
    from agent_cli.settings.extension_settings import McpSettings
    from agent_cli.settings.load import Loaded


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
        from agent_cli.app import logs  # noqa: PLC0415 - not before the handshake is heard

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
        import agent_cli.app.app  # noqa: F401, PLC0415 # pyright: ignore[reportUnusedImport]

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
        from agent_cli.session_store.upkeep import delete_sessions  # noqa: PLC0415 - rare

        if _is_saved(id):
            with suppress(SessionNotFound):  # another program was faster
                delete_sessions(self._store, [id])

    @cached_property
    def _store(self) -> "SessionStore":
        """The store, shared by all lists: it reads only changed sessions again."""
        from agent_cli.session_store import SessionStore  # noqa: PLC0415

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
        from agent_cli.app.app import App  # noqa: PLC0415

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
        startup = startup._replace(loaded=_patient(startup.loaded))
        mcp = startup.loaded.settings.mcp
        servers = tuple(_server(given, mcp) for given in opening.servers)
        startup = startup._replace(servers=servers)
        return App(startup, one_shot=one_shot, log_secrets=self._secrets)


def _patient(loaded: "Loaded") -> "Loaded":
    """Return settings with which an editor's first prompt waits for servers as long as `-p` does.

    Nobody types for seconds while they start, as in the terminal: the prompt comes at once.
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


def _server(given: McpServer, mcp: "McpSettings") -> "ServerConfig":
    """Return a server of the client, unchanged: variables in it are not expanded."""
    from agent_cli.mcp_client import ServerConfig  # noqa: PLC0415

    named = given.env if isinstance(given, StdioServer) else given.headers
    values = {each.name: each.value for each in named}
    server = ServerConfig(
        name=given.name,
        startup_timeout_s=mcp.startup_timeout_s,
        call_timeout_s=mcp.call_timeout_s,
    )
    if isinstance(given, StdioServer):
        return replace(server, command=given.command, args=given.args, env=values)
    return replace(server, transport=given.type, url=given.url, headers=values)
