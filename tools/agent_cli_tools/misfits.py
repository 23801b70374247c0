"""Find probable slips in the result of an exact edit; the edit itself is made as requested."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from agent_cli.system.alignment import align
from agent_cli_tools.matching import Edit
from agent_cli_tools.matching.document import flatten
from agent_cli_tools.matching.frames import can_follow, split_line

_CHANGES_MAX = 50
_AROUND_LINES = 30
_SHOWN_MAX = 3


def slips(before: str, after: str, edits: Sequence[Edit]) -> list[str]:
    """Return the doubts about *after*, which *edits* made of *before*, for the model to check."""
    before, after = flatten(before), flatten(after)
    found: list[str] = []
    for number, requested in enumerate(edits, 1):
        edit = replace(requested, old=flatten(requested.old), new=flatten(requested.new))
        line = _misplaced(before, edit)
        if line:
            found.append(
                f"Edit {number} began behind the indentation of its line, and line {line} of new"
                " is indented otherwise; it was written as it is. Check it."
            )
        if _joins(before, edit):
            found.append(f"Edit {number} joined two lines: old ends with a line end, new does not.")
    numbers = [] if found else misfits(before, after)
    if numbers:
        listed = ", ".join(map(str, numbers[:_SHOWN_MAX]))
        where = f"lines {listed}" if len(numbers) > 1 else f"line {listed}"
        found.append(f"The indentation of {where} fits nothing around. Check the result.")
    return found


def _joins(before: str, edit: Edit) -> bool:
    """Return whether *edit* puts its last line in front of a text that is not its own."""
    end = before.find(edit.old) + len(edit.old)
    ends = edit.old.endswith("\n"), not edit.new or edit.new.endswith("\n")
    return ends == (True, False) and edit.old in before and before[end : end + 1] not in {"", "\n"}


def misfits(before: str, after: str) -> list[int]:
    """Return the numbers of lines of *after* that cannot follow the line before them.

    Only changed places count, and only where the lines around the place show that such a line
    does not occur there.
    """
    old, new = before.split("\n"), after.split("\n")
    changes = [block for block in align(old, new) if block.kind != "equal"][:_CHANGES_MAX]
    found: set[int] = set()
    for _, a, a_end, b, b_end in changes:
        usual = {kind for _, kind in _breaks(old, a - _AROUND_LINES, a_end + _AROUND_LINES)}
        first = next((i for i in range(b - 1, -1, -1) if new[i].strip()), 0)
        last = next((i for i in range(b_end, len(new)) if new[i].strip()), len(new))
        found |= {i + 1 for i, kind in _breaks(new, first, last + 1) if kind not in usual}
    return sorted(found)


def _breaks(lines: Sequence[str], first: int, stop: int) -> Iterator[tuple[int, bool]]:
    """Yield each line that cannot follow the one before it, and whether it is deeper."""
    numbers = [i for i in range(max(0, first), min(stop, len(lines))) if lines[i].strip()]
    for i, j in pairwise(numbers):
        line, following = split_line(lines[i]), split_line(lines[j])
        if not can_follow(line, following, ""):
            yield j, len(following.indent) > len(line.indent)


def _misplaced(before: str, edit: Edit) -> int | None:
    """Return the line of `new` that has not the indentation of the line in which `old` begins.

    None if `old` begins at the start of a line or in its text, or has such a line as well.
    """
    at = before.find(edit.old)
    head = before[before.rfind("\n", 0, at) + 1 : at]
    if at < 0 or not head or head.strip(" \t"):
        return None
    old, new = ([split_line(line) for line in text.split("\n")] for text in (edit.old, edit.new))
    if new[0].indent.startswith(head + old[0].indent):
        return 1
    whole = head + old[0].indent
    if any(not line.is_blank and not line.indent.startswith(whole) for line in old[1:]):
        return None
    lines = enumerate(new[1:], 2)
    return next((i for i, x in lines if not x.is_blank and not x.indent.startswith(whole)), None)
