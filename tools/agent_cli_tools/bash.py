"""bash: run a command in a fresh shell at the workspace's root; job_output: read what one prints.

job_output, for commands in the background, is declared from the first request on: a tool that came
with the first job would have the server read the whole conversation anew, at full price.
"""

from asyncio import to_thread
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.late_models import Field, SkipJsonSchema
from agent_cli.contracts.tooling import Approval, Parameters, Tool, ToolContext, ToolResult
from agent_cli.contracts.wording import UNSANDBOXED
from agent_cli.system.loading import late_pattern
from agent_cli_tools.jobs import COMMAND_LIMIT_MAX_S

if TYPE_CHECKING:
    from agent_cli.sandbox import Sandbox
    from agent_cli_tools.command_run import CommandRequest
    from agent_cli_tools.output import OutputBuffer
    from agent_cli_tools.workspace import Workspace

_SHOWN_COMMAND_CHARS = 100
_WAIT_MAX_S: Final = 600
_GIT: Final = late_pattern(r"\bgit\b")

_DESCRIPTION = (
    "Run a command in a new bash at the workspace root; stdin is empty."
    " Returns stdout and stderr merged, then [exit CODE · TIME]; long output as head,"
    " tail and a file. background returns at once; you are told when it ends."
)


class BashParameters(Parameters):
    """Parameters of bash."""

    command: str
    timeout: float = Field(120, gt=0, le=COMMAND_LIMIT_MAX_S, description="seconds, else 120")
    background: bool = False
    notify: str = Field("", description="regex: tell me its first line")
    unsandboxed: bool = Field(False, description="if the sandbox blocked it; asks the user")
    # Not declared: models know it from other agents' bash. It explains the command to the user.
    description: SkipJsonSchema[object] = None


def bash_tool(
    workspace: "Workspace",
    sandbox: "Sandbox | None" = None,
    *,
    result_chars_max: int = 0,
    folds: bool = True,
) -> Tool:
    """Return the tool `bash`; without a sandbox, commands have all of the user's rights."""

    def new_output() -> "OutputBuffer":
        from agent_cli_tools.output import OutputBuffer  # with a command

        spill = workspace.shared.open_spill
        return OutputBuffer(spill, result_chars_max=result_chars_max, folds=folds)

    async def execute(
        _call_id: str, params: BashParameters, cancel: CancelToken, on_update: ToolContext
    ) -> ToolResult:
        from agent_cli_tools.command_run import CommandRun  # with a command

        held = None if params.unsandboxed else sandbox
        async with cancel.scope(), workspace.running(params.command) as watched:
            run = CommandRun(workspace, held, _request(params), new_output, on_update, watched)
            result = await run.result()
            if watched is None:
                return result
            from agent_cli_tools.command_answers import with_changes

            return await to_thread(with_changes, result, Path(watched.folder), workspace.seen)

    async def attempt(
        _call_id: str, params: BashParameters, cancel: CancelToken, on_update: ToolContext
    ) -> ToolResult | None:
        from agent_cli_tools.read_only_run import read_only_result

        if sandbox is None or params.unsandboxed or params.background:
            return None
        async with cancel.scope():
            return await read_only_result(
                workspace, sandbox, params.command, params.timeout, new_output, on_update
            )

    return Tool(
        name="bash",
        label="Run",
        description=_DESCRIPTION,
        parameters=BashParameters,
        execute=execute,
        attempt=attempt,
        parallel_safe=runs_no_git,
        timeout_s=0,  # bash has its own limit, which the model may raise.
        require_approval=lambda params: Approval(params.unsandboxed, UNSANDBOXED),
        # A command may read and write anywhere, so it starts after earlier changes and ends before
        # later ones; commands themselves run in parallel.
        reads=lambda _params: workspace.dirs,
        summary=lambda params: _first_line(params.command),
    )


def _request(params: BashParameters) -> "CommandRequest":
    from agent_cli_tools.command_run import CommandRequest  # with a command

    return CommandRequest(
        params.command,
        params.timeout,
        params.notify,
        in_background=params.background,
        has_timeout="timeout" in params.model_fields_set,
    )


def runs_no_git(params: BashParameters) -> bool:
    """Return whether the command may run beside others.

    Git locks its index, and `git commit` needs what `git add` before it did: models put both into
    one reply. A command that only names git loses little by waiting.
    """
    return not _GIT.search(params.command)


def _first_line(command: str) -> str:
    line = command.strip().partition("\n")[0]
    shortened = line[:_SHOWN_COMMAND_CHARS]
    return shortened if shortened == command.strip() else f"{shortened} …"


class JobOutputParameters(Parameters):
    """Parameters of job_output."""

    id: int
    since: int = Field(0, ge=0, description="line; 0: first unread")
    filter: str = Field("", description="regex")
    wait: float = Field(0, ge=0, le=_WAIT_MAX_S, description="seconds, for its end or a match")


def job_output_tool(workspace: "Workspace") -> Tool:
    """Return the tool `job_output`."""

    async def execute(
        _call_id: str, params: JobOutputParameters, cancel: CancelToken, _context: ToolContext
    ) -> ToolResult:
        from agent_cli_tools.job_reading import JobRequest, read_job  # with a job

        request = JobRequest(params.id, params.since, params.filter, params.wait)
        return await read_job(workspace, request, cancel)

    return Tool(
        name="job_output",
        label="Job output",
        description="Read a background job's new output and state.",
        parameters=JobOutputParameters,
        execute=execute,
        changes=False,
        takes_slot=False,
        timeout_s=0,  # the tool has its own limit
        summary=lambda params: f"job {params.id}",
    )
