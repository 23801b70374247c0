"""Compute the text of a file before and after a waiting call, without running the tool."""

import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import Tool, check_input

_FILE_BYTES_MAX: Final = 1_000_000


class PlannedChange(NamedTuple):
    """What a call will do to a file; `path` is as the model wrote it."""

    path: str
    before: str
    after: str
    is_new: bool


def planned_change(given: Json, target: Path) -> PlannedChange | None:
    """Return what an edit's or a write's input does to *target* as it is now.

    Returns:
        None where that is not certain: another kind of input, no plain text file, or a text that
        is not there exactly as often as an edit says.
    """
    before = _read(target)
    match given:
        case {"path": str(path), "edits": [*edits], **rest} if before is not None and not rest:
            after = _edited(before, edits)
        case {"path": str(path), "content": str(content), **rest} if not rest:
            before = "" if before is None and not target.exists() else before
            after = content
        case _:
            return None
    if before is None or after is None:
        return None
    return PlannedChange(path, before, after, is_new=not target.exists())


def written_by(name: str, given: Json, tools: Sequence[Tool]) -> Path | None:
    """Return the one file a call says it will write, symlinks resolved."""
    tool = next((tool for tool in tools if tool.name == name), None)
    if tool is None:
        return None
    try:
        paths = tool.writes(check_input(tool, given))
    except ToolError:
        return None
    return Path(paths[0]) if len(paths) == 1 else None


def _read(path: Path) -> str | None:
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > _FILE_BYTES_MAX:
            return None
        return path.read_bytes().decode()
    except (OSError, ValueError):  # not there, not ours, not UTF-8, no path at all
        return None


def _edited(text: str, edits: Sequence[Json]) -> str | None:
    """Return *text* after all *edits*, one after the other; None when one may fit elsewhere."""
    for edit in edits:
        match edit:
            case {"old": str(old), "new": str(new), **rest} if old and old != new:
                everywhere = rest.pop("all", False) is True
            case _:
                return None
        count = text.count(old)
        if rest or count == 0 or (count > 1 and not everywhere):
            return None
        text = text.replace(old, new)
    return text
