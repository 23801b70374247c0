"""Asking the model for another input: the person writes it, and the model calls again with it.

What a person approves is the input that was shown, and no other. So an edited input is never run in
place of it.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.timeline import Json
from agent_cli.repl.approval.refusals import unwanted_as_it_is

# (text, ending of the file's name) -> the text as it was saved.
Editor: TypeAlias = Callable[[str, str], Awaitable[str]]
_FIELDS: Final = {"command": ".sh", "content": ".txt"}


async def reworded(call: ToolCall, editor: Editor) -> str | None:
    """Let a person change the input of *call*; return what the model reads instead of a result.

    Returns:
        None when nothing was changed, or nothing was left.
    """
    name, ending, text = _written(call.input)
    wanted = await editor(text, ending)
    # Editors end the last line; whether the text had one is not what somebody changed.
    if not wanted.strip() or wanted.removesuffix("\n") == text.removesuffix("\n"):
        return None
    if not text.endswith("\n"):
        wanted = wanted.removesuffix("\n")
    return unwanted_as_it_is(call.name, name, wanted)


def _written(given: Json) -> tuple[str, str, str]:
    """Return what of an input is opened: its name, the ending for a file, the text."""
    for field, ending in _FIELDS.items():
        if isinstance(given, dict) and isinstance(value := given.get(field), str):
            return field, ending, value
    return "input", ".json", json.dumps(given, ensure_ascii=False, indent=2)
