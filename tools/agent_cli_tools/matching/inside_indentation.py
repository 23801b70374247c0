"""Handle a text quoted from inside a line's indentation: indent the lines after the first."""

from agent_cli_tools.matching.frames import BLOCK_STARTS, Quoted
from agent_cli_tools.matching.lines import Line, Unclear, split_line
from agent_cli_tools.matching.repair import FileContext

_OPENERS = (*BLOCK_STARTS, "(")
_MARKUP = tuple("-*+<.#|>0123456789")
_WHY = "old starts within its indentation, so it is open how to indent the lines of new"
_WHOLE = "; start old and new with all of it"


def inside_indentation(head: str, old: str, new: str, file: FileContext, *, ends_line: bool) -> str:
    """Return the replacement of *head* and *old*.

    Either *head* precedes *new* unchanged, as for a part of a line, or all lines were quoted
    without *head*, which is added to each.

    Args:
        head: Blanks before *old* in its line.
        old: The quotation, which starts within that line.
        new: The replacement text.
        file: The context in the file.
        ends_line: Whether *old* extends to the end of a line.

    Raises:
        Unclear: Both are possible, with different results.
    """
    old_lines = [split_line(line) for line in old.split("\n")]
    new_lines = [split_line(line) for line in new.split("\n")]
    texts = [line for line in new_lines if not line.is_blank]
    if old.endswith("\n") and not new:
        return ""
    if not ends_line:
        return head + new
    if sum(not line.is_blank for line in old_lines) > 1:
        # The other lines matched with their whole indentation, so only the first lacks it.
        starts_blank = new_lines[0].is_blank and len(new_lines) > 1
        if starts_blank or (texts and texts[0].indent != old_lines[0].indent):
            raise Unclear(_WHY + _WHOLE)
        return head + new
    shifted = "\n".join("" if line.is_blank else f"{head}{line}" for line in new_lines)
    if shifted != head + new and _goes_on(head, old_lines[0], old, new_lines):
        return head + new
    there = [Line(head, old_lines[0].body, ""), *old_lines[1:]]
    quotation = Quoted(there, old_lines, new_lines, *file.neighbours)
    if not quotation.is_one_frame(lambda indent: head + indent, file.unit()):
        raise Unclear("new is not indented as old is, and old not as the line there is")
    if shifted == head + new or _is_quoted_without(head, old, new_lines):
        return shifted
    raise Unclear(_WHY + _WHOLE)


def _is_quoted_without(head: str, old: str, new: list[Line]) -> bool:
    """Return whether all lines of *new* must have been quoted without *head*."""
    if new[0].is_blank:
        return bool(new[0].body) or any(not line.is_blank for line in new)
    rest = [line for line in new[1:] if not line.is_blank]
    whole = head + split_line(old.split("\n", 1)[0]).indent
    if any(not line.indent.startswith(whole) for line in rest):
        return old.endswith("\n")
    return bool(rest) and new[0].body.endswith(_OPENERS) and rest[0].indent == whole


def _goes_on(head: str, quoted: Line, old: str, new: list[Line]) -> bool:
    """Return whether only the first line of *new* was quoted without *head*."""
    rest = [line for line in new[1:] if not line.is_blank]
    whole = head + quoted.indent
    return (
        not old.endswith("\n")
        and new[0].indent == quoted.indent
        and bool(rest)
        and rest[0].indent == whole
        and all(line.indent.startswith(whole) for line in rest)
        and not new[0].body.endswith(_OPENERS)
        and not new[0].body.startswith(_MARKUP)
    )
