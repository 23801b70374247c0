"""The title of a waiting call: verb and target, and the size of what it changes."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.tooling import Tool
from agent_cli.repl.approval.changes import Row, changes_of
from agent_cli.repl.approval.preview import preview
from agent_cli.terminal.narration import describe_call, label_of
from agent_cli.terminal.planned_change import written_by
from agent_cli.terminal.sanitize import reveal

_COMMAND_CHARS_MAX: Final = 60
_RUN: Final = "Run"
_FETCH: Final = "web_fetch"
_PATH: Final = "path: "
_NEW: Final = " (new file)"


class TitledCall(NamedTuple):
    """A waiting call as verb and target, with the size of what it changes, and the rows below it.

    Attributes:
        target: The rest of the title; "" if it is long, and the rows show it.
        brief: The target, or the beginning of a long one, for a row among others.
        is_change: The rows are the change of a file, so that "changes files" says nothing.
    """

    verb: str
    target: str
    beside: str
    rows: tuple[Row, ...]
    brief: str
    is_change: bool = False

    @property
    def title(self) -> str:
        """Verb and target."""
        return f"{self.verb} {self.target}".rstrip()


def titled(call: ToolCall, tools: Sequence[Tool]) -> TitledCall:
    """Return *call* for a question; title and rows together show all of it."""
    target = written_by(call.name, call.input, tools)
    if target and (rows := changes_of(call.input, target)):
        return _change(label_of(tools, call.name), rows)
    shown = tuple(preview(call, tools))
    url = call.arguments.get("url")
    if call.name == _FETCH and isinstance(url, str) and len(url) <= _COMMAND_CHARS_MAX:
        besides = tuple(row for row in shown if not row.text.startswith("url: "))
        return TitledCall(label_of(tools, call.name), reveal(url), "", besides, reveal(url))
    command = call.arguments.get("command")
    if not isinstance(command, str):
        brief = describe_call(tools, call.name, call.input).removeprefix(label_of(tools, call.name))
        return TitledCall(reveal(call.name), "", "", shown, reveal(brief.strip()))
    first, *others = reveal(command).split("\n")
    if others or len(command) > _COMMAND_CHARS_MAX:
        size = f"{len(others) + 1} lines" if others else ""
        return TitledCall(_RUN, "", size, shown, first)
    return TitledCall(_RUN, first, "", tuple(r for r in shown if r.text[:2] != "$ "), first)


def _change(label: str, rows: Sequence[Row]) -> TitledCall:
    path = rows[0].text.removeprefix(_PATH)
    is_new = path.endswith(_NEW)
    added, removed = (sum(row.style == style for row in rows) for style in ("added", "removed"))
    size = f"+{added}" if is_new else f"+{added} −{removed}"
    beside = f"{size} new" if is_new else size
    path = path.removesuffix(_NEW)
    return TitledCall(label, path, beside, tuple(rows[1:]), path, is_change=True)
