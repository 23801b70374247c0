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
    """The effect of a call on a file; `path` is as the model wrote it."""

    path: str
    before: str
    after: str
    is_new: bool


def planned_change(given: Json, target: Path) -> PlannedChange | None:
    """Return the effect of an edit's or write's input on the current *target*.

    Returns:
        None if the effect is uncertain: another kind of input, not a plain text file, or a text
        that does not occur exactly as often as the edit says.
    """
    before = file_text(target)
    is_crlf = before is not None and has_only_crlf(before)
    match given:
        case {"path": str(path), "edits": [*edits], **rest} if before is not None and not rest:
            after = _edited(before, edits, is_crlf=is_crlf)
        case {"path": str(path), "content": str(content), **rest} if not rest:
            before = "" if before is None and not target.exists() else before
            after = _with_ends(content, is_crlf=is_crlf)
        case _:
            return None
    if before is None or after is None:
        return None
    return PlannedChange(path, before, after, is_new=not target.exists())


def written_by(name: str, given: Json, tools: Sequence[Tool]) -> Path | None:
    """Return the file that a call declares to write, symlinks resolved; None unless it is one."""
    tool = next((tool for tool in tools if tool.name == name), None)
    if tool is None:
        return None
    try:
        paths = tool.writes(check_input(tool, given))
    except ToolError:
        return None
    return Path(paths[0]) if len(paths) == 1 else None


def file_text(path: Path) -> str | None:
    """Return the content of a small UTF-8 file; None if it is missing or another kind of file."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > _FILE_BYTES_MAX:
            return None
        return path.read_bytes().decode()
    except (OSError, ValueError):  # missing, not readable, not UTF-8, or not a path
        return None


def has_only_crlf(text: str) -> bool:
    """Return whether all line ends of *text* are CRLF, and there is one."""
    return 0 < text.count("\n") == text.count("\r\n")


def _with_ends(text: str, *, is_crlf: bool) -> str:
    """Return *text* with the line ends that the tools write into such a file."""
    return text.replace("\n", "\r\n") if is_crlf and "\r" not in text else text


def _edited(text: str, edits: Sequence[Json], *, is_crlf: bool) -> str | None:
    """Return *text* after all *edits* in order; None if one does not match exactly."""
    for edit in edits:
        match edit:
            case {"old": str(old), "new": str(new), **rest} if old and old != new:
                everywhere = rest.pop("all", False) is True
            case _:
                return None
        old, new = _with_ends(old, is_crlf=is_crlf), _with_ends(new, is_crlf=is_crlf)
        count = text.count(old)
        if rest or count == 0 or (count > 1 and not everywhere):
            return None
        text = text.replace(old, new)
    return text
