"""bash: run a command in a fresh shell at the workspace's root."""

import asyncio
import signal
import time
from collections.abc import Callable, Sequence

from pydantic import Field

from agent_cli.cancel import CancelToken
from agent_cli.errors import ToolError
from agent_cli.timeline import Json
from agent_cli.tooling import Tool, ToolContext, ToolResult
from agent_cli_tools.environment import command_environment
from agent_cli_tools.output import OutputBuffer
from agent_cli_tools.parameters import Parameters
from agent_cli_tools.process_groups import Member
from agent_cli_tools.processes import Command, CommandLine, start
from agent_cli_tools.programs import find_program
from agent_cli_tools.workspace import Workspace

TIMEOUT_MAX_S = 600
_UPDATE_EVERY_S = 0.2
_SETTLE_S = 0.3
_SIGNAL_BASE = 128
_SHOWN_COMMAND_CHARS = 100
_LISTED_PROCESSES_MAX = 5

_DESCRIPTION = (
    "Run a command in a new bash at the workspace root (cd does not persist); stdin is empty."
    " Returns stdout and stderr merged, then [exit CODE · TIME]; long output keeps head and tail,"
    " all of it in a file. background: returns at once; for servers."
)


class BashParameters(Parameters):
    """Parameters of bash."""

    command: str
    timeout: float = Field(120, gt=0, le=TIMEOUT_MAX_S, description="seconds")
    background: bool = False


def bash_tool(workspace: Workspace) -> Tool:
    """Return the tool `bash`."""

    async def execute(
        _call_id: str, params: BashParameters, cancel: CancelToken, on_update: ToolContext
    ) -> ToolResult:
        async with cancel.scope():
            return await _run(workspace, params, on_update)

    return Tool(
        name="bash",
        label="Bash",
        description=_DESCRIPTION,
        parameters=BashParameters,
        execute=execute,
        timeout_s=0,  # It keeps its own limit, which the model may raise.
        summary=lambda params: _first_line(params.command),
    )


async def _run(workspace: Workspace, params: BashParameters, on_update: ToolContext) -> ToolResult:
    output = OutputBuffer(workspace.open_spill)
    updates = _Updates(lambda: on_update(output.last_lines()))
    if params.background:
        output.start_spill()
        if output.spill_path is None:
            raise ToolError("No log file could be made: is the disk full? Free some space first.")
    command = await _start(workspace, params.command, output, updates.due)
    began = time.monotonic()
    try:
        # What is meant to go on may still fail at once; then its output is the answer.
        code = await _exit_code(command, _SETTLE_S if params.background else params.timeout)
        if code is not None:
            await command.drain()
        elif not params.background:
            await command.stop()
    except BaseException:
        await command.stop()
        raise
    finally:
        updates.stop()
    left = command.others()
    if command.has_ended():
        command.close()
    else:
        workspace.keep(command)
    if code is None and params.background:
        return _started(command, output)
    return _result(output, code, params, time.monotonic() - began, left)


async def _start(
    workspace: Workspace, text: str, output: OutputBuffer, on_output: Callable[[], None]
) -> Command:
    bash = find_program("bash", outside=workspace.root)
    if bash is None:
        raise ToolError("bash is not installed here, so no command can run. Tell the user.")
    line = CommandLine(text, bash, workspace.root, command_environment())
    try:
        return await start(line, output, on_output)
    except (OSError, ValueError) as error:
        raise ToolError(
            f"The command could not be started: {error}."
            " If it is very long, write it to a file and run that."
        ) from error


async def _exit_code(command: Command, limit_s: float) -> int | None:
    """Return the exit code, or None when it takes longer than *limit_s*."""
    try:
        async with asyncio.timeout(limit_s):
            return await command.wait()
    except TimeoutError:
        return None


class _Updates:
    """Calls *show* soon after the first of several changes, at most five times a second."""

    def __init__(self, show: Callable[[], None]) -> None:
        self._show = show
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False

    def due(self) -> None:
        """There is something new to show."""
        if self._timer is None and not self._stopped:
            self._timer = asyncio.get_running_loop().call_later(_UPDATE_EVERY_S, self._fire)

    def stop(self) -> None:
        """Show nothing more; what a background process prints later has no call to belong to."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _fire(self) -> None:
        self._timer = None
        self._show()


def _started(command: Command, output: OutputBuffer) -> ToolResult:
    return ToolResult.of(
        f"Started as process group {command.group}; its output (64 MB of it) goes to"
        f" {output.spill_path} (use read). `kill -- -{command.group}` ends it; at the latest it"
        " ends with this program.",
        {
            "kind": "command",
            "exit_code": None,
            "group": command.group,
            "spill": str(output.spill_path),
        },
    )


def _result(
    output: OutputBuffer,
    code: int | None,
    params: BashParameters,
    duration_s: float,
    left: Sequence[Member],
) -> ToolResult:
    text = output.text()
    details: Json = {
        "kind": "command",
        "exit_code": code,
        "duration_s": round(duration_s, 3),
        "spill": str(output.spill_path) if output.spill_path else None,
    }
    if code is None:
        return ToolResult.error(
            f"The command took longer than {params.timeout:g} s and was stopped. Give a longer"
            f" timeout (at most {TIMEOUT_MAX_S}), or background for what does not end by itself."
            f" Its output until then:\n{text}",
            details,
        )
    body = f"{text}\n" if text and not text.endswith("\n") else text
    return ToolResult.of(f"{body}[{_outcome(code, duration_s)}{_still_running(left)}]", details)


def _outcome(code: int, duration_s: float) -> str:
    name = ""
    if code > _SIGNAL_BASE and code - _SIGNAL_BASE in set(signal.Signals):
        name = f" ({signal.Signals(code - _SIGNAL_BASE).name})"
    return f"exit {code}{name} · {duration_s:.1f} s"


def _still_running(left: Sequence[Member]) -> str:
    if not left:
        return ""
    listed = ", ".join(f"{one.name} {one.pid}" for one in left[:_LISTED_PROCESSES_MAX])
    more = len(left) - _LISTED_PROCESSES_MAX
    return f" · still running: {listed}{f' and {more} more' if more > 0 else ''}"


def _first_line(command: str) -> str:
    line = command.strip().partition("\n")[0]
    shortened = line[:_SHOWN_COMMAND_CHARS]
    return shortened if shortened == command.strip() else f"{shortened} …"
