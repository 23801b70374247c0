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


def builtin_tools(
    workspace: Workspace, sandbox: Sandbox | None = None, *, result_chars_max: int = 0
) -> tuple[Tool, ...]:
    """Return the six built-in tools.

    Args:
        workspace: What all of them work in.
        sandbox: What holds the commands; None holds none.
        result_chars_max: What a result may hold, for tools that choose what to leave out; 0 for
            no limit.
    """
    return (
        read_tool(workspace),
        edit_tool(workspace),
        write_tool(workspace),
        bash_tool(workspace, sandbox, result_chars_max=result_chars_max),
        grep_tool(workspace),
        glob_tool(workspace),
    )
