"""Edit the input of a waiting call: the saved input is what runs."""

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

from agent_cli.contracts.errors import ToolError, UsageError
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import Tool, check_input

# (text, suffix of the file's name) -> the saved text
Editor: TypeAlias = Callable[[str, str], Awaitable[str]]
_FIELDS: Final = {"command": ".sh", "content": ".txt"}


async def edited_input(call: ToolCall, tools: Sequence[Tool], editor: Editor) -> Json:
    """Open the input of *call* in *editor* and return the saved input.

    Returns:
        The whole input, valid for its tool; None if it is unchanged or empty.

    Raises:
        UsageError: The saved text is not a valid input of the tool.
    """
    field, ending, text = _opened(call.input)
    saved = await editor(text, ending)
    # Editors add a final newline, which does not count as a change.
    if not saved.strip() or saved.removesuffix("\n") == text.removesuffix("\n"):
        return None
    if not text.endswith("\n"):
        saved = saved.removesuffix("\n")
    content = (
        {**call.input, field: saved} if isinstance(call.input, dict) and field else _json(saved)
    )
    _require_valid(call.name, content, tools)
    return content


def edited_part(call: ToolCall) -> str:
    """Return a word for the part of *call* that the editor opens."""
    return _opened(call.input)[0] or "input"


def _opened(content: Json) -> tuple[str, str, str]:
    """Return the part of an input to edit: its field ("" for all), file suffix, text."""
    for field, ending in _FIELDS.items():
        if isinstance(content, dict) and isinstance(value := content.get(field), str):
            return field, ending, value
    return "", ".json", json.dumps(content, ensure_ascii=False, indent=2)


def _json(saved: str) -> Json:
    try:
        content: Json = json.loads(saved)
    except ValueError as error:
        raise UsageError(f"not run: what you saved is not valid JSON ({error})") from error
    return content


def _require_valid(name: str, content: Json, tools: Sequence[Tool]) -> None:
    for tool in (tool for tool in tools if tool.name == name):
        try:
            check_input(tool, content)
        except ToolError as error:
            raise UsageError(f"not run: what you saved does not fit {name}: {error}") from error
