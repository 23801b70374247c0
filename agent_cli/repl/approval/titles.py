"""The title of a waiting call: verb and target, and the size of what it changes."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.tooling import Tool
from agent_cli.repl.approval.changes import Row, changes_of
from agent_cli.repl.approval.preview import preview
from agent_cli.terminal.narration import label_of
from agent_cli.terminal.planned_change import written_by
from agent_cli.terminal.sanitize import reveal

_COMMAND_CHARS_MAX: Final = 60
_PATH: Final = "path: "
_NEW: Final = " (new file)"


class TitledCall(NamedTuple):
    """A waiting call as a title with what stands at its end, and the rows below it.

    `is_change` says that the rows are the change of a file, so that "changes files" says nothing.
    """

    title: str
    beside: str
    rows: tuple[Row, ...]
    is_change: bool = False


def titled(call: ToolCall, tools: Sequence[Tool]) -> TitledCall:
    """Return *call* for a question; title and rows together show all of it."""
    target = written_by(call.name, call.input, tools)
    if target and (rows := changes_of(call.input, target)):
        return _change(label_of(tools, call.name), rows)
    shown = tuple(preview(call, tools))
    command = call.arguments.get("command")
    if not isinstance(command, str):
        return TitledCall(reveal(call.name), "", shown)
    lines = command.count("\n") + 1
    if lines > 1 or len(command) > _COMMAND_CHARS_MAX:
        return TitledCall("Run", f"{lines} lines" if lines > 1 else "", shown)
    return TitledCall(f"Run {reveal(command)}", "", tuple(r for r in shown if r.text[:2] != "$ "))


def _change(label: str, rows: Sequence[Row]) -> TitledCall:
    path = rows[0].text.removeprefix(_PATH)
    is_new = path.endswith(_NEW)
    added, removed = (sum(row.style == style for row in rows) for style in ("added", "removed"))
    size = f"+{added}" if is_new else f"+{added} −{removed}"
    beside = f"{size} new" if is_new else size
    return TitledCall(f"{label} {path.removesuffix(_NEW)}", beside, tuple(rows[1:]), is_change=True)
