"""bash: run a command in a fresh shell at the workspace's root."""

import asyncio
import re
import time
from collections.abc import Callable

from pydantic import Field

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.parameters import Parameters
from agent_cli.contracts.tooling import Approval, Tool, ToolContext, ToolResult
from agent_cli.sandbox import Confinement, Sandbox, SandboxMissing
from agent_cli.system.programs import find_program
from agent_cli_tools.command_answers import TIMEOUT_MAX_S, Ended, finished, started
from agent_cli_tools.command_line import CommandLine
from agent_cli_tools.environment import command_environment
from agent_cli_tools.jobs import Job
from agent_cli_tools.output import OutputBuffer
from agent_cli_tools.processes import RunningCommand, start
from agent_cli_tools.workspace import Workspace

_UPDATE_EVERY_S = 0.2
_SETTLE_S = 0.3
_SHOWN_COMMAND_CHARS = 100
# In a sandbox of its own no command reaches another, so what ends a group is done by us.
_ENDS_GROUP = re.compile(r"kill -- -(?P<group>[1-9]\d*)")

_UNSANDBOXED = "it would run outside the sandbox, with all of your rights and the network"
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
    unsandboxed: bool = Field(False, description="if the sandbox blocked it; asks the user")


def bash_tool(
    workspace: Workspace, sandbox: Sandbox | None = None, *, result_chars_max: int = 0
) -> Tool:
    """Return the tool `bash`; without a sandbox, commands have all of the user's rights."""

    async def execute(
        _call_id: str, params: BashParameters, cancel: CancelToken, on_update: ToolContext
    ) -> ToolResult:
        async with cancel.scope():
            with workspace.running(params.command):
                output = OutputBuffer(workspace.open_spill, result_chars_max=result_chars_max)
                return await _Run(workspace, sandbox, params, output, on_update).result()

    return Tool(
        name="bash",
        label="Bash",
        description=_DESCRIPTION,
        parameters=BashParameters,
        execute=execute,
        timeout_s=0,  # It keeps its own limit, which the model may raise.
        require_approval=lambda params: Approval(params.unsandboxed, _UNSANDBOXED),
        # It may read and write anywhere. What comes before it is there when it starts, and what
        # comes after it starts when it has ended; commands themselves run side by side.
        reads=lambda _params: workspace.dirs,
        summary=lambda params: _first_line(params.command),
    )


class _Run:
    """One call of the tool."""

    def __init__(
        self,
        workspace: Workspace,
        sandbox: Sandbox | None,
        params: BashParameters,
        output: OutputBuffer,
        on_update: ToolContext,
    ) -> None:
        self._workspace = workspace
        self._sandbox = None if params.unsandboxed else sandbox
        self._params = params
        self._output = output
        self._call_id = on_update.tool_call_id
        self._updates = _Updates(lambda: on_update(self._output.last_lines()))

    async def result(self) -> ToolResult:
        """Run the command and say what came of it."""
        if command := self._to_be_ended():
            self._workspace.jobs.forget(command)
            await command.stop()
            return ToolResult.of(f"Process group {command.group} and all in it has ended.")
        return await self._command_result()

    def _to_be_ended(self) -> RunningCommand | None:
        """Return the background command that this one is to end, if that is all it does."""
        ending = _ENDS_GROUP.fullmatch(self._params.command.strip())
        commands = (
            one for one in self._workspace.left_running() if isinstance(one, RunningCommand)
        )
        return next((one for one in commands if ending and one.group == int(ending["group"])), None)

    async def _command_result(self) -> ToolResult:
        params = self._params
        if params.background:
            self._output.start_spill()
            if self._output.spill_path is None:
                raise ToolError("No log file could be made: is the disk full? Free some space.")
        confinement = await self._confinement()
        command = await self._start(confinement or Confinement())
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
            self._updates.stop()
        left = command.others()
        if command.has_ended():
            await command.finish()
        else:
            self._workspace.keep(command)
        if code is None and params.background:
            assert self._output.spill_path
            job = Job(self._call_id, params.command, command, self._output.spill_path)
            self._workspace.jobs.add(job)
            return started(command.group, self._output)
        notes = list(command.put_back)
        if confinement is not None and code and self._sandbox is not None:
            notes += filter(None, [self._sandbox.denial(self._output.text())])
        ended = Ended(
            code, time.monotonic() - began, params.timeout, left, notes, command.ended_with_it
        )
        return finished(self._output, ended)

    async def _confinement(self) -> Confinement | None:
        try:
            return await self._sandbox.confine(self._workspace.root) if self._sandbox else None
        except SandboxMissing as error:
            raise ToolError(f"No command can run: {error}. Tell the user.") from error
        except OSError as error:
            raise ToolError(
                f"The sandbox could not be made: {error}. Is the disk full? Tell the user."
            ) from error

    async def _start(self, confinement: Confinement) -> RunningCommand:
        bash = find_program("bash", outside=self._workspace.root)
        if bash is None:
            confinement.release(())
            raise ToolError("bash is not installed here, so no command can run. Tell the user.")
        line = CommandLine(
            self._params.command, bash, self._workspace.root, command_environment(), confinement
        )
        try:
            return await start(self._workspace.launcher, line, self._output, self._updates.due)
        except (OSError, ValueError) as error:
            raise ToolError(
                f"The command could not be started: {error}."
                " If it is very long, write it to a file and run that."
            ) from error


async def _exit_code(command: RunningCommand, limit_s: float) -> int | None:
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


def _first_line(command: str) -> str:
    line = command.strip().partition("\n")[0]
    shortened = line[:_SHOWN_COMMAND_CHARS]
    return shortened if shortened == command.strip() else f"{shortened} …"
