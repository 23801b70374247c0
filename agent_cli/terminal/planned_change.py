"""Compute the text of a file before and after a waiting call, without running the tool.

Compare such texts line by line, too.
"""

import re
import stat
from collections.abc import Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import Tool, check_input
from agent_cli.system.alignment import common_start

_FILE_BYTES_MAX: Final = 1_000_000
# In longer lines, marked words would take longer than they help.
_WORDS_CHARS_MAX: Final = 500
_COMPARED_CHARS_MAX: Final = 100_000
_LIKE_MIN: Final = 0.4
_WORD: Final = re.compile(r"\w+|\s+|.")
Spans: TypeAlias = tuple[tuple[int, int], ...]


class PlannedChange(NamedTuple):
    """The effect of a call on a file; `path` is as the model wrote it."""

    path: str
    before: str
    after: str
    is_new: bool


def planned_change(
    arguments: Json, target: Path, unsaved: str | None = None
) -> PlannedChange | None:
    """Return the effect of an edit's or write's input on the current *target*.

    *unsaved* is its text in an editor, which counts instead of the file's.

    Returns:
        None if the effect is uncertain: another kind of input, not a plain text file, or a text
        that does not occur exactly as often as the edit says.
    """
    before = file_text(target) if unsaved is None else unsaved
    is_crlf = before is not None and has_only_crlf(before)
    match arguments:
        case {"path": str(path), "edits": [*edits], **rest} if before is not None and not rest:
            after = _edited(before, edits, is_crlf=is_crlf)
        case {"path": str(path), "content": str(content), **rest} if not rest:
            before = "" if before is None and not target.exists() else before
            after = _with_ends(content, is_crlf=is_crlf)
        case _:
            return None
    if before is None or after is None:
        return None
    return PlannedChange(path, before, after, is_new=not before and not target.exists())


def written_by(name: str, arguments: Json, tools: Sequence[Tool]) -> Path | None:
    """Return the file that a call declares to write, symlinks resolved; None unless it is one."""
    tool = next((tool for tool in tools if tool.name == name), None)
    if tool is None:
        return None
    try:
        paths = tool.writes(check_input(tool, arguments))
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


def changed_words(old: str, new: str) -> tuple[Spans, Spans]:
    """Return where words differ; nowhere if most do, because such a line is another line.

    Of long lines, the part between the first difference and the last, which may be empty in one.
    """
    longer = max(len(old), len(new))
    if longer > _COMPARED_CHARS_MAX:
        return (), ()
    if longer > _WORDS_CHARS_MAX:
        first = common_start(old, new)
        same = common_start(old[first:][::-1], new[first:][::-1])
        is_alike = first + same >= longer * _LIKE_MIN
        return (((first, len(old) - same),), ((first, len(new) - same),)) if is_alike else ((), ())
    before, after = _WORD.findall(old), _WORD.findall(new)
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    if matcher.ratio() < _LIKE_MIN:
        return (), ()
    changed = [code for code in matcher.get_opcodes() if code[0] != "equal"]
    return (
        tuple(_span(before, first, end) for _, first, end, _, _ in changed if end > first),
        tuple(_span(after, first, end) for _, _, _, first, end in changed if end > first),
    )


def _span(words: Sequence[str], first: int, end: int) -> tuple[int, int]:
    start = sum(map(len, words[:first]))
    return start, start + sum(map(len, words[first:end]))
