"""The tools the agent works with; one module each, written out, not discovered."""

from agent_cli.contracts.tooling import Tool
from agent_cli.sandbox import Sandbox
from agent_cli_tools.bash import bash_tool
from agent_cli_tools.edit import edit_tool
from agent_cli_tools.glob import glob_tool
from agent_cli_tools.grep import grep_tool
from agent_cli_tools.read import read_tool
from agent_cli_tools.workspace import Workspace
from agent_cli_tools.write import write_tool

__all__ = ["Workspace", "builtin_tools"]


def builtin_tools(workspace: Workspace, sandbox: Sandbox | None = None) -> tuple[Tool, ...]:
    """Return the six built-in tools, all of which work in *workspace*; commands in *sandbox*."""
    return (
        read_tool(workspace),
        edit_tool(workspace),
        write_tool(workspace),
        bash_tool(workspace, sandbox),
        grep_tool(workspace),
        glob_tool(workspace),
    )
