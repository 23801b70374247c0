"""job_output: read the output of a background command.

It is declared from the first request on: a tool that came with the first job would have the server
read the whole conversation anew, at full price.
"""

from typing import TYPE_CHECKING, Final

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.late_models import Field
from agent_cli.contracts.tooling import Parameters, Tool, ToolContext, ToolResult

if TYPE_CHECKING:
    from agent_cli_tools.workspace import Workspace

_WAIT_MAX_S: Final = 600


class JobOutputParameters(Parameters):
    """Parameters of job_output."""

    id: int
    since: int = Field(0, ge=0, description="line; 0: first unread")
    filter: str = Field("", description="regex")
    wait: float = Field(0, ge=0, le=_WAIT_MAX_S, description="seconds, for its end or a match")


def job_output_tool(workspace: "Workspace") -> Tool:
    """Return the tool `job_output`."""

    async def execute(
        _call_id: str, params: JobOutputParameters, cancel: CancelToken, _on_update: ToolContext
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
