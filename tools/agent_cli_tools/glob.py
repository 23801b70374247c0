"""glob: find files by name."""

from typing import TYPE_CHECKING

from agent_cli.contracts.tooling import Tool, ToolContext, ToolResult
from agent_cli_tools.search_tools import GlobParameters, search_tool

if TYPE_CHECKING:
    from agent_cli_tools.workspace import Workspace

_DESCRIPTION = (
    "Find files by name, e.g. src/*.py or *.{ts,tsx} (in any folder); respects .gitignore, newest"
    " first."
)


def glob_tool(workspace: "Workspace") -> Tool:
    """Return the tool `glob`."""
    return search_tool("glob", _DESCRIPTION, GlobParameters, _glob, workspace)


async def _glob(workspace: "Workspace", params: GlobParameters, context: ToolContext) -> ToolResult:
    from agent_cli_tools.search_runs import glob  # with the first search

    return await glob(workspace, params, context)
