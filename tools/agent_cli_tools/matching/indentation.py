"""Find the shift between quoted and actual indentation, and apply it to new lines.

`new` is indented either like the quotation `old`, so that it must be shifted as well, or like the
file. It is shifted only if a line that both have shows which, and if all shifts that explain the
quotation give the same result.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from agent_cli.contracts.wording import counted
from agent_cli_tools.matching.document import Document
from agent_cli_tools.matching.frames import Quoted
from agent_cli_tools.matching.lines import Line, Unclear, split_line

_TAB_WIDTHS = range(1, 9)
_TABBED = "spaces written as tabs"

_Shift: TypeAlias = tuple[str, Callable[[str], str | None]]
"""A name, and a function from quoted indentation to that of the file, if there is one."""

_Pairs: TypeAlias = Sequence[tuple[str, str]]
"""Indentations: (in the file, quoted)."""


def reindented(
    file: Document,
    first: int,
    old: Sequence[Line],
    new: Sequence[Line],
    changed: Sequence[int],
) -> tuple[list[str], str]:
    """Return the indentations of the *changed* lines of *new* in the file, and the repair made.

    Args:
        file: The file, which has the lines *old* from line *first* on.

    Raises:
        Unclear: No shift explains the quotation, or it is open how to indent *new*.
    """
    there = [split_line(line) for line in file.lines[first : first + len(old)]]
    pairs = [(a.indent, b.indent) for a, b in zip(there, old, strict=True) if not a.is_blank]
    given = [new[i].indent for i in changed]
    if all(a == b for a, b in pairs):
        return given, ""
    found = list(_shifts(pairs))
    if not found:
        raise Unclear(_difference(pairs), fits=False)
    results = {tuple(map(apply, given)): (name, apply) for name, apply in found}
    if len(results) > 1 or any(None in result for result in results):
        raise Unclear(_difference(pairs) + ", which leaves the indentation of new open")
    ((result, (name, apply)),) = results.items()
    indents = [indent for indent in result if indent is not None]
    if indents == given:
        return given, name
    quotation = Quoted(there, old, new, file.unit_near(first), *file.around(first, len(old)))
    moved = [replace(line, indent=apply(line.indent) or "") for line in new]
    if not quotation.is_one_frame(moved):
        raise Unclear("new is not indented as old is, and old not as the lines there are")
    if (scaled := _scaled(pairs, new)) and quotation.may_be_scaled(scaled, moved):
        raise Unclear(_difference(pairs) + ", by a shift or by a factor")
    if name == _TABBED and any(line.body.count("`") % 2 for line in new):
        raise Unclear("spaces in a string of several lines may be meant as spaces")
    return indents, name


def _shifts(pairs: _Pairs) -> Iterator[_Shift]:
    """Yield the shifts that turn each quoted indentation into that of the file."""
    there, quoted = pairs[0]
    if there.endswith(quoted):
        missing = there.removesuffix(quoted)
        if all(a == missing + b for a, b in pairs):
            yield f"{_counted(missing)} added to every line", missing.__add__
    elif quoted.endswith(there):
        extra = quoted.removesuffix(there)
        if all(b == extra + a for a, b in pairs):
            name = f"{_counted(extra)} removed from every line"
            yield name, partial(_removed, extra=extra)
    for width in _TAB_WIDTHS:
        if all(a == _spaced(b, width) for a, b in pairs):
            yield "tabs written as spaces", partial(_spaced, width=width)
        if all("\t" not in b and _spaced(a, width) == b for a, b in pairs):
            known = {b: a for a, b in pairs}
            yield _TABBED, partial(_tabbed, width=width, known=known)


def _removed(indent: str, extra: str) -> str | None:
    return indent.removeprefix(extra) if indent.startswith(extra) else None


def _spaced(indent: str, width: int) -> str:
    return indent.replace("\t", " " * width)


def _tabbed(indent: str, width: int, known: dict[str, str]) -> str | None:
    """Return *indent* in tabs, or in the file's mix of tabs and spaces."""
    if indent.strip(" "):
        return None
    return known.get(indent, "\t" * (len(indent) // width) + " " * (len(indent) % width))


def _scaled(pairs: _Pairs, new: Sequence[Line]) -> list[Line] | None:
    """Return *new* with its indentation multiplied, if a factor explains the quotation as well."""
    there, quoted = map(len, pairs[0])
    if not (there and quoted) or any(len(a) * quoted != len(b) * there for a, b in pairs):
        return None
    is_whole = not any(len(line.indent) * there % quoted for line in new)
    if "\t" in "".join(map("".join, pairs)) or not is_whole:
        return None
    return [replace(line, indent=" " * (len(line.indent) * there // quoted)) for line in new]


def _difference(pairs: _Pairs) -> str:
    there, quoted = next(pair for pair in pairs if pair[0] != pair[1])
    return f"a line there is indented by {_counted(there)}, in old by {_counted(quoted)}"


def _counted(indent: str) -> str:
    if not indent:
        return "nothing"
    kind = {" ": "space", "\t": "tab"}.get(indent[0], "blank")
    return counted(len(indent), "blank" if indent.strip(indent[0]) else kind)
