"""The program behind `agent-cli mcp serve`: one `App` for each call of a client.

A client's model writes the calls, so a call may only restrict what the server was started with: no
other folder, no higher cost limit, no more permissive mode.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from agent_cli.acp.ports import Opening
from agent_cli.app.editor import EditorProgram
from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.permission_modes import stricter
from agent_cli.mcp_server.ports import Wanted
from agent_cli.settings.sources import Override
from agent_cli.system.paths import real_path
from agent_cli.system.redaction import Redactor

if TYPE_CHECKING:
    from agent_cli.app.app import App

_BY = "the MCP client"


class ServedProgram(EditorProgram):
    """Builds the program of each call."""

    def build_for(self, wanted: Wanted) -> "App":
        """Return the program of a call.

        Raises:
            AgentCliError: The call asks for more than the server allows, or an option is invalid.
        """
        opening = Opening(self._folder(wanted.cwd), resume=wanted.session)
        return self.build(opening, self._overrides(wanted), one_shot=not wanted.can_ask)

    def transcript(self, id: str) -> str:
        """Return a session as Markdown, without secrets; raises SessionError."""
        from agent_cli.session_store.export import export  # noqa: PLC0415

        redact = Redactor.of(self._startup.environment).text
        return export(self._store.read(id), "md", redact=redact)

    def _folder(self, given: str | None) -> Path:
        here = real_path(self._startup.workspace)
        try:
            folder = real_path(here / given) if given else here
        except (OSError, ValueError) as error:  # a NUL, or too long
            raise UsageError(f"cwd: {given!r} is not a path ({error})") from error
        allowed = (here, *(real_path(each) for each in self._arguments.add_dirs))
        if not any(map(folder.is_relative_to, allowed)):
            raise UsageError(f"cwd: {folder} is not in {here}, where this server was started")
        return folder

    def _overrides(self, wanted: Wanted) -> list[Override]:
        settings = self._startup.loaded.settings
        found: list[Override] = []
        if wanted.model is not None:
            found.append(Override("model", wanted.model, _BY))
        if wanted.max_cost_usd is not None:
            own = settings.max_cost_usd
            cost = min(wanted.max_cost_usd, own) if own else wanted.max_cost_usd
            found.append(Override("max_cost_usd", str(cost), _BY))
        if wanted.mode is not None:
            own_mode = settings.permissions.mode
            if stricter(wanted.mode, own_mode) != wanted.mode:
                raise UsageError(
                    f"permission_mode: {wanted.mode} allows more than {own_mode}, the server's own;"
                    f" it needs `--permission-mode {wanted.mode}` before mcp"
                )
            found.append(Override("permissions.mode", wanted.mode, _BY))
        return found
