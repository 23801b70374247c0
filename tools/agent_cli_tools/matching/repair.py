"""Repair the new lines of a misquoted edit to match the file."""

from collections.abc import Sequence

from agent_cli_tools.alignment import align
from agent_cli_tools.matching.characters import rewritten
from agent_cli_tools.matching.document import Document
from agent_cli_tools.matching.indentation import reindented
from agent_cli_tools.matching.lines import Unclear, split_line


def repaired(
    file: Document, first: int, old: Sequence[str], new: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return what replaces the lines of *file* from line *first* on, and the repairs made.

    Lines of *new* that *old* has as well stay as the file has them.

    Raises:
        Unclear: *old* does not stand there, or it is open what to write.
    """
    there = file.lines[first : first + len(old)]
    result, repairs = list(new), list[str]()
    if there == old:
        return result, repairs
    here, quoted, following = ([split_line(line) for line in lines] for lines in (there, old, new))
    blocks = align(old, new)
    changed = [i for block in blocks if block.kind != "equal" for i in range(*block[3:])]
    texts = [i for i in changed if not following[i].is_blank]
    indents, shift = reindented(file, first, quoted, following, texts)
    bodies = rewritten(
        "\n".join(line.body for line in here),
        "\n".join(line.body for line in quoted),
        "\n".join(following[i].body for i in texts),
        file.text,
    ).split("\n")
    lost = [len(a.trail) - len(b.trail) for a, b in zip(here, quoted, strict=True)]
    if min(lost) < 0:
        raise Unclear("old ends a line in blanks that are not there")
    for block in blocks:
        if block.kind == "replace" and any(lost[block.a_start : block.a_end]):
            raise Unclear("a line there ends in blanks that old has not")
        if block.kind == "equal":
            result[block.b_start : block.b_end] = there[block.a_start : block.a_end]
    blank = [following[i] for i in changed if following[i].is_blank]
    if blank and any(count and line.is_blank for count, line in zip(lost, quoted, strict=True)):
        raise Unclear("blank lines there hold blanks that old has not")
    if shift and any(line.trail for line in blank):
        raise Unclear("it is open whether new is to have a line of blanks only")
    for i, indent, body in zip(texts, indents, bodies, strict=False):
        result[i] = indent + body + following[i].trail
    if shift:
        repairs.append(f"indentation ({shift})")
    if any(lost):
        repairs.append("blanks at line ends")
    if any(a.body != b.body for a, b in zip(here, quoted, strict=True)):
        repairs.append("typographic characters")
    return result, repairs
