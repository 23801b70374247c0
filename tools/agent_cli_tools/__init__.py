"""The built-in tools, listed explicitly."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agent_cli.contracts.options import require, require_one_of
from agent_cli.contracts.tooling import Approval, Tool
from agent_cli.sandbox import Sandbox
from agent_cli.sandbox.secret_files import is_secret
from agent_cli.system import paths
from agent_cli_tools.bash import bash_tool
from agent_cli_tools.edit import edit_tool
from agent_cli_tools.read import read_tool
from agent_cli_tools.search_tools import glob_tool, grep_tool
from agent_cli_tools.workspace import Workspace
from agent_cli_tools.write import write_tool

if TYPE_CHECKING:
    from agent_cli.sandbox import SandboxPolicy

__all__ = ["Workspace", "builtin_tools"]


def builtin_tools(
    workspace: Workspace,
    sandbox: Sandbox | Literal["required"] | None = "required",
    *,
    permissions: Literal["ask", "allow"] = "ask",
    result_chars_max: int = 0,
    folds_output: bool = True,
    documents: bool = False,
) -> tuple[Tool, ...]:
    """Return the six built-in tools: read, edit, write, bash, grep and glob.

    The defaults are safe: a call that changes something waits for `Agent.approve`, and a command
    runs only in a sandbox that confines it to the workspace, without network.

    Args:
        workspace: The workspace of all tools; its `close` ends processes they left running.
        sandbox: The sandbox of commands. "required" uses the best one that works on this machine
            and refuses commands if none does; None runs them with all rights of this program.
        permissions: "ask" pauses the run before every call of edit, write and bash; "allow" leaves
            the decision to `LoopConfig.authorize_tool`; without one, calls run. A command that the
            model wants to run outside the sandbox asks in both cases.
        result_chars_max: Maximum length of a result, for tools that choose what to leave out; 0 for
            no limit.
        folds_output: Whether bash folds progress, repeated lines and passed tests; all of it is
            kept in a file.
        documents: Whether the model's API takes PDF files; otherwise `read` shows their text.

    Raises:
        AgentCliError: An argument has another type or none of its values.
    """
    require(workspace, Workspace, what="workspace")
    require_one_of(permissions, ("ask", "allow"), what="permissions")
    if sandbox != "required":
        require(sandbox, Sandbox, type(None), what='sandbox, if not "required",')
    held = _sandbox(workspace) if sandbox == "required" else sandbox
    if held is not None:
        workspace.wrote = held.expect
    tools = (
        read_tool(workspace, documents=documents),
        edit_tool(workspace),
        write_tool(workspace),
        bash_tool(workspace, held, result_chars_max=result_chars_max, folds=folds_output),
        grep_tool(workspace),
        glob_tool(workspace),
    )
    return tuple(map(_asking, tools)) if permissions == "ask" else tools


def _sandbox(workspace: Workspace) -> Sandbox:
    """Return a mandatory sandbox, which is closed with the workspace."""

    def policy() -> "SandboxPolicy":
        from agent_cli.sandbox import SandboxPolicy  # the program passes its own sandbox

        return SandboxPolicy(
            [Path(directory) for directory in workspace.dirs],
            home=Path.home(),
            own=(paths.config_dir(), paths.state_dir()),
            is_secret=is_secret,
        )

    sandbox = Sandbox(policy, mode="required", state_dir=paths.state_dir())
    workspace.shared.on_close(sandbox.close)
    return sandbox


def _asking(tool: Tool) -> Tool:
    """Return *tool* so that every call needs approval, if it changes anything."""
    if not tool.changes:
        return tool
    own = tool.require_approval

    def require(params: object) -> Approval:
        required = own(params) if callable(own) else own
        if isinstance(required, Approval) and required.required:
            return required
        does = "runs a command" if tool.name == "bash" else "changes a file"
        return Approval(required=True, reason=f"it {does}")

    return replace(tool, require_approval=require)
