"""Start a command of the model in the workspace, and show what it prints."""

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from agent_cli.contracts.errors import ToolError
from agent_cli.sandbox import Confinement
from agent_cli.system.launching import Watched
from agent_cli.system.programs import find_program
from agent_cli_tools.command_line import CommandLine, command_environment
from agent_cli_tools.output import OutputBuffer
from agent_cli_tools.processes import RunningCommand, start
from agent_cli_tools.workspace import Workspace

_UPDATE_EVERY_S: Final = 0.2
_SHORTEN: Final = "If it is very long, write it to a file and run that."
_IS_GONE: Final = "The workspace is gone, so no command can run. Tell the user."


async def start_command(
    workspace: Workspace,
    text: str,
    confinement: Confinement,
    output: OutputBuffer,
    on_output: Callable[[], None],
    variables: Mapping[str, str] | None = None,
    watched: Watched | None = None,
    confine: Callable[[], Awaitable[Confinement]] | None = None,
) -> RunningCommand:
    """Start the script *text* in *confinement*, which ends with it.

    Args:
        on_output: Called after each piece of output.
        variables: More environment variables.
        watched: How its changes are recorded.
        confine: Makes the sandbox, of which *confinement* is only the outline.

    Raises:
        ToolError: It could not be started; for the model.
    """
    bash = find_program("bash", outside=workspace.root)
    if bash is None:
        confinement.release()
        raise ToolError("bash is not installed here, so no command can run. Tell the user.")
    environment = {
        **command_environment(),
        **workspace.shared.command_variables(),
        **(variables or {}),
    }
    exported = workspace.shared.exports.words(is_confined=confinement.is_sandbox)
    line = CommandLine(
        text, bash, workspace.root, environment, confinement, exported, watched=watched
    )
    try:
        return await start(workspace.shared.launcher, line, output, on_output, confine)
    except (OSError, ValueError) as error:
        advice = advice_about(error, _SHORTEN if workspace.root.is_dir() else _IS_GONE)
        raise ToolError(f"The command could not be started: {error}. {advice}") from error


def advice_about(error: Exception, otherwise: str) -> str:
    """Return the advice for the model: about the limit of open files, or else *otherwise*."""
    if os.strerror(errno.EMFILE) in str(error):
        return "Tell the user to raise the limit of open files (`ulimit -n`)."
    return otherwise


class PacedUpdates:
    """Calls *show* soon after changes, at most five times a second."""

    def __init__(self, show: Callable[[], None]) -> None:
        self._show = show
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False

    def due(self) -> None:
        """Schedule an update."""
        if self._timer is None and not self._stopped:
            self._timer = asyncio.get_running_loop().call_later(_UPDATE_EVERY_S, self._fire)

    def stop(self) -> None:
        """Stop updates; later output of a background process does not belong to a call."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _fire(self) -> None:
        self._timer = None
        self._show()
