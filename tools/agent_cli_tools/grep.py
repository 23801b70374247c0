"""grep: search file contents with a regular expression."""

from typing import TYPE_CHECKING

from agent_cli.contracts.tooling import Tool, ToolContext, ToolResult
from agent_cli_tools.search_tools import GrepParameters, search_tool

if TYPE_CHECKING:
    from agent_cli_tools.workspace import Workspace

_DESCRIPTION = "Search files for a regex (ripgrep); respects .gitignore, newest first."


def grep_tool(workspace: "Workspace") -> Tool:
    """Return the tool `grep`."""
    return search_tool("grep", _DESCRIPTION, GrepParameters, _grep, workspace)


async def _grep(workspace: "Workspace", params: GrepParameters, context: ToolContext) -> ToolResult:
    from agent_cli_tools.search_runs import grep  # with the first search

    return await grep(workspace, params, context)
