"""Repair the new lines of a misquoted edit to match the file."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent_cli_tools.matching.alignment import align
from agent_cli_tools.matching.blanks import Blanks, lacking
from agent_cli_tools.matching.characters import rewritten
from agent_cli_tools.matching.frames import Quoted
from agent_cli_tools.matching.indentation import shifted
from agent_cli_tools.matching.lines import Line, Unclear, split_line


@dataclass(frozen=True, slots=True)
class FileContext:
    """Facts about the rest of the file."""

    text: str
    unit: Callable[[], str | None]
    has_blanks_alone: Callable[[], bool]
    """Whether some blank lines have blanks."""
    neighbours: tuple[Line | None, Line | None]
    """The nearest non-blank lines before and after."""


@dataclass(frozen=True, slots=True)
class Repaired:
    """Lines to write, and the repairs made; none for exactly quoted lines."""

    lines: tuple[str, ...]
    repairs: tuple[str, ...]


def repaired(
    there: Sequence[str], old: Sequence[str], new: Sequence[str], file: FileContext
) -> Repaired:
    """Return the replacement of the file's lines *there* for an edit of *old* into *new*.

    Unchanged lines stay as the file has them.

    Raises:
        Unclear: *old* is not *there*, or it is unclear what to write.
    """
    if list(there) == list(old):
        return Repaired(tuple(new), ())
    here, quoted = [split_line(line) for line in there], [split_line(line) for line in old]
    blocks = align(old, new)
    changed = [i for b in blocks if b.kind != "equal" for i in range(b.b_start, b.b_end)]
    lacks = lacking(here, quoted)
    if any(any(lacks[block.a_start : block.a_end]) for block in blocks if block.kind == "replace"):
        raise Unclear("a line there ends in blanks that old has not")
    following = [split_line(line) for line in new]
    quotation = Quoted(here, quoted, following, *file.neighbours)
    written, repairs = _written(quotation, [following[i] for i in changed], file)
    result = list(new)
    for index, line in zip(changed, written, strict=True):
        result[index] = line
    for block in blocks:
        if block.kind == "equal":
            result[block.b_start : block.b_end] = there[block.a_start : block.a_end]
    return Repaired(tuple(result), repairs)


def _written(
    quotation: Quoted, changed: Sequence[Line], file: FileContext
) -> tuple[list[str], tuple[str, ...]]:
    """Return the *changed* lines as the file would have them, and the repairs made."""
    there, old = quotation.there, quotation.old
    texts = [line for line in changed if not line.is_blank]
    indents, shift = shifted(quotation, texts, file.unit)
    bodies = rewritten(
        [line.body for line in there],
        [line.body for line in old],
        [line.body for line in texts],
        file.text,
    )
    blanks = Blanks(there, old, quotation.new, is_certain=not (shift or file.has_blanks_alone()))
    whole = iter(
        [
            indent + body + blanks.trail(line)
            for indent, body, line in zip(indents, bodies, texts, strict=True)
        ]
    )
    written = [blanks.blank_line(line) if line.is_blank else next(whole) for line in changed]
    is_respelled = any(a.body != b.body for a, b in zip(there, old, strict=True))
    repairs = (
        f"indentation ({shift})" if shift else "",
        "blanks at line ends" if blanks.were_repaired else "",
        "typographic characters" if is_respelled else "",
    )
    return written, tuple(filter(None, repairs))
