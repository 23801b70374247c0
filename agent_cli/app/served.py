"""The program behind `agent-cli mcp serve`: one `App` for each call of a client.

A client's model writes the calls, so a call may only restrict what the server was started with: no
other folder, no higher cost limit, no more permissive mode.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from agent_cli.acp.ports import Opening
from agent_cli.app.editor import EditorProgram
from agent_cli.contracts.errors import SessionNotFound, UsageError
from agent_cli.contracts.options import stricter
from agent_cli.mcp_server.ports import RunRequest
from agent_cli.settings.sources import Override
from agent_cli.system.paths import real_path
from agent_cli.system.redaction import Redactor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent_cli.app.app import App
    from agent_cli.contracts.listings import SessionInfo


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
        from agent_cli.session_store.export import export  # noqa: PLC0415

        redact = Redactor.of(self._startup.environment).text
        return export(self._store.read(id), "md", redact=redact)

    def _folder(self, given: str | None) -> Path:
        here = real_path(self._startup.workspace)
        try:
            folder = real_path(here / given) if given else here
        except (OSError, ValueError) as error:  # a NUL, or too long
            raise UsageError(f"cwd: {given!r} is not a path ({error})") from error
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
        if request.model is not None:
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
