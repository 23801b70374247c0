"""Parameters of the search tools and their common part; `searches` runs the search itself."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal, TypeVar

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.late_models import Field
from agent_cli.contracts.tooling import Parameters, Tool, ToolContext, ToolResult

if TYPE_CHECKING:
    from agent_cli_tools.workspace import Workspace


class SearchParameters(Parameters):
    """Parameters of every search."""

    pattern: str = Field(min_length=1)
    path: str = "."


class GlobParameters(SearchParameters):
    """Parameters of glob."""

    limit: int = Field(100, ge=1)


class GrepParameters(SearchParameters):
    """Parameters of grep."""

    glob: str = Field("", description="e.g. *.py")
    mode: Literal["content", "files", "count"] = "content"
    context: int = Field(0, ge=0, le=20)
    ignore_case: bool = False
    limit: int = Field(100, ge=1)


ParametersT = TypeVar("ParametersT", bound=SearchParameters)


def search_tool(
    name: str,
    description: str,
    parameters: type[ParametersT],
    run: Callable[["Workspace", ParametersT, ToolContext], Awaitable[ToolResult]],
    workspace: "Workspace",
) -> Tool:
    """Return the read-only tool *name*, which calls *run*."""

    async def execute(
        _call_id: str, params: ParametersT, cancel: CancelToken, on_update: ToolContext
    ) -> ToolResult:
        async with cancel.scope():
            return await run(workspace, params, on_update)

    return Tool(
        name=name,
        label=name.capitalize(),
        description=description,
        parameters=parameters,
        execute=execute,
        changes=False,
        reads=lambda params: workspace.touched_by(params.path),
        summary=lambda params: f"{params.pattern} in {params.path}",
    )
