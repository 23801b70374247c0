"""The lines shown at the start: tools, sandbox and MCP servers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from agent_cli.contracts.claude_tools import CLAUDE_NAMES

if TYPE_CHECKING:
    from agent_cli.contracts.servers import ServerState
    from agent_cli.contracts.tooling import Tool
    from agent_cli.sandbox import Report

# One row of a usual screen; `/tools` lists all of them. Tools of plugins are always named.
_TOOLS_MAX: Final = 6
_OWN_TOOLS: Final = {*CLAUDE_NAMES, "recall"}


def overview_lines(
    tools: Sequence["Tool"],
    servers: Sequence["ServerState"],
    sandbox: "Report | None",
    why_unwatched: str,
) -> list[str]:
    """Return the lines; without a sandbox report, the status line shows the sandbox later.

    *why_unwatched* says why `/undo` does not cover all that commands change; "" if it does.
    """
    names = ", ".join(state.name for state in servers)
    more = [tool.name for tool in tools[_TOOLS_MAX:]]
    of_plugins = [name for name in more if name not in _OWN_TOOLS]
    shown = ", ".join([*(tool.name for tool in tools[:_TOOLS_MAX]), *of_plugins]) or "none"
    hidden = len(more) - len(of_plugins)
    return [
        f"tools: {shown} and {hidden} more" if hidden else f"tools: {shown}",
        *([f"sandbox: {sandbox.summary}"] if sandbox else []),
        *(
            [f"undo: of commands, only the files they name: {why_unwatched}"]
            if why_unwatched
            else []
        ),
        *([f"MCP servers: {names}"] if names else []),
        "? or /help shows commands and keys",
    ]
