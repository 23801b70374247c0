"""The input of a shell call, before it is validated, as the policies read it."""

from typing import Final

from agent_cli.contracts.events import ToolCall

COMMAND_TOOL: Final = "bash"


def command_of(call: ToolCall) -> str:
    """Return the command of a shell call; "" if it names none."""
    return str(call.arguments.get("command", ""))


def leaves_sandbox(call: ToolCall) -> bool:
    """Return whether a shell call asks to run outside the sandbox.

    Any value that may be parsed as true counts as true.
    """
    return call.arguments.get("unsandboxed", False) is not False


def runs_on(call: ToolCall) -> bool:
    """Return whether a shell call is to run in the background."""
    return call.arguments.get("background", False) is not False
