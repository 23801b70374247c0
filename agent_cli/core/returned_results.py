"""Convert what a tool returned to a result that can be recorded and sent.

A plugin's tool may return anything. One malformed block in the record would make every later
request of the session fail.
"""

from agent_cli.contracts.tooling import ToolResult
from agent_cli.system.shapes import is_sequence


def as_result(tool_name: str, returned: object) -> ToolResult:
    """Return *returned* as a result; an error result if it cannot be one."""
    if isinstance(returned, str):
        return ToolResult.of(returned)
    if not isinstance(returned, ToolResult):
        return _refused(tool_name, f"{type(returned).__name__}, which is not a result")
    if not _is_content(returned.content):
        return _refused(tool_name, "content that does not consist of text and image blocks")
    return returned


def _is_content(content: object) -> bool:
    return is_sequence(content) and all(map(_is_block, content))


def _is_block(block: object) -> bool:
    """Return whether *block* has the shape that the API requires of its type."""
    match block:
        case {"type": "text", "text": str()} | {"type": "image", "source": dict()}:
            return isinstance(block, dict)
        case {"type": "text" | "image"}:
            return False
        case {"type": str()}:
            return isinstance(block, dict)
        case _:
            return False


def _refused(tool_name: str, what: str) -> ToolResult:
    return ToolResult.error(f"{tool_name} returned {what}: report this to the tool's author.")
