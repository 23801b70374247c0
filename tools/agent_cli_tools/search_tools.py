"""Common parts of the search tools; `searches` runs the search itself."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from pydantic import Field

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.parameters import Parameters
from agent_cli.contracts.tooling import Tool, ToolContext, ToolResult

if TYPE_CHECKING:
    from agent_cli_tools.workspace import Workspace


class SearchParameters(Parameters):
    """Parameters of every search."""

    pattern: str = Field(min_length=1)
    path: str = "."


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
