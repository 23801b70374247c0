"""The tools that search, glob and grep; `search_runs` runs a search, with the first one."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.late_models import Field
from agent_cli.contracts.tooling import Parameters, Tool, ToolContext, ToolResult

if TYPE_CHECKING:
    from agent_cli_tools.workspace import Workspace

_GLOB = (
    "Find files by name, e.g. src/*.py or *.{ts,tsx} (in any folder); respects .gitignore, newest"
    " first."
)
_GREP = "Search files for a regex (ripgrep); respects .gitignore, newest first."


GrepMode: TypeAlias = Literal["content", "files", "count"]


class SearchParameters(Parameters):
    """Parameters of every search."""

    pattern: str = Field(min_length=1)
    path: str = "."


class GlobParameters(SearchParameters):
    """Parameters of glob."""

    limit: int = Field(100, ge=1)


class GrepParameters(SearchParameters):
    """Parameters of grep."""

    glob: str = ""
    mode: GrepMode = "content"
    context: int = Field(0, ge=0, le=20)
    ignore_case: bool = False
    limit: int = Field(100, ge=1)


def glob_tool(workspace: "Workspace") -> Tool:
    """Return the tool `glob`."""
    return _search_tool("glob", _GLOB, GlobParameters, _glob, workspace)


async def _glob(workspace: "Workspace", params: GlobParameters, context: ToolContext) -> ToolResult:
    from agent_cli_tools.search_runs import glob  # with the first search

    return await glob(workspace, params, context)


def grep_tool(workspace: "Workspace") -> Tool:
    """Return the tool `grep`."""
    return _search_tool("grep", _GREP, GrepParameters, _grep, workspace)


async def _grep(workspace: "Workspace", params: GrepParameters, context: ToolContext) -> ToolResult:
    from agent_cli_tools.search_runs import grep  # with the first search

    return await grep(workspace, params, context)


ParametersT = TypeVar("ParametersT", bound=SearchParameters)


def _search_tool(
    name: str,
    description: str,
    parameters: type[ParametersT],
    run: Callable[["Workspace", ParametersT, ToolContext], Awaitable[ToolResult]],
    workspace: "Workspace",
) -> Tool:
    """Return the read-only tool *name*, which calls *run*."""

    async def execute(
        _call_id: str, params: ParametersT, cancel: CancelToken, context: ToolContext
    ) -> ToolResult:
        async with cancel.scope():
            return await run(workspace, params, context)

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
