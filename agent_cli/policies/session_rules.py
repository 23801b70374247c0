"""What "always" stands for: rules narrow enough for a person to oversee."""

from agent_cli.events import ToolCall
from agent_cli.policies.permission_rules import COMMAND_TOOL
from agent_cli.policies.shell import Place, session_prefixes


def session_rules(call: ToolCall, place: Place) -> tuple[str, ...]:
    """Return the rules that together cover *call* and its like; none when nobody could oversee it.

    A command is remembered by the first words of its parts, every other tool by its name.
    """
    given = call.input if isinstance(call.input, dict) else {}
    if call.name != COMMAND_TOOL:
        return (f"{call.name}(*)" if "path" in given else call.name,)
    command = given.get("command")
    prefixes = session_prefixes(command, place) if isinstance(command, str) else ()
    return tuple(f"{COMMAND_TOOL}({prefix})" for prefix in prefixes)
