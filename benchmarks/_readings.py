"""The possible results of a misquoted edit: one file for each way it may have been misquoted.

Independent of the measured matching: every shift of indentation is tried on old, and new is either
shifted with it or left as it is.
"""

import ast
import re
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeAlias

Shift: TypeAlias = Callable[[str], str | None]
"""A quoted indentation → that of the file, if there is one."""

_TAB_WIDTHS = range(1, 9)
_SCALES = (2, 4)
_LACKING_MAX = 3


def readings(text: str, old: str, new: str) -> set[str]:
    """Return the files that *old* and *new* can mean if *old* has one place in *text*."""
    return {*_shifted(text, old, new), *_surrounded(text, old, new)} - {text}


def by_grammar(name: str, text: str, files: set[str]) -> set[str]:
    """Return those of *files* that parse; all, if the language is not Python."""
    is_python = name.endswith((".py", ".pyi")) and _parses(text)
    return set(filter(_parses, files)) if is_python else files


def _shifted(text: str, old: str, new: str) -> Iterator[str]:
    lines, quoted = text.split("\n"), old.removesuffix("\n").split("\n")
    bodies, wanted = [line.strip() for line in lines], [line.strip() for line in quoted]
    count = len(quoted)
    places = [i for i in range(len(lines) - count + 1) if bodies[i : i + count] == wanted]
    for place in places:
        there = lines[place : place + count]
        pairs = [(_indent(a), _indent(b)) for a, b in zip(there, quoted, strict=True) if b.strip()]
        for shift in _shifts(pairs[0]) if pairs else ():
            if any(shift(b) != a for a, b in pairs):
                continue
            for instead in (_apply(shift, new), new):
                if instead is None:
                    continue
                # Without the trailing blanks that only old has.
                known = {line.rstrip(): line for line in there}
                body = instead.removesuffix("\n").split("\n") if instead else []
                body = [known.get(line.rstrip(), line.rstrip()) for line in body]
                yield "\n".join([*lines[:place], *body, *lines[place + count :]])


def _shifts(pair: tuple[str, str]) -> Iterator[Shift]:
    there, quoted = pair
    if there.endswith(quoted):
        missing = there.removesuffix(quoted)
        yield lambda indent: missing + indent
    if quoted.endswith(there):
        extra = quoted.removesuffix(there)
        yield lambda indent: indent.removeprefix(extra) if indent.startswith(extra) else None
    for scale in _SCALES:
        yield partial(_scaled, scale=scale)
        yield partial(_narrowed, scale=scale)
    for width in _TAB_WIDTHS:
        yield partial(_replaced, before="\t", after=" " * width)
        yield partial(_replaced, before=" " * width, after="\t")


def _replaced(indent: str, *, before: str, after: str) -> str:
    return indent.replace(before, after)


def _scaled(indent: str, *, scale: int) -> str:
    return indent * scale


def _narrowed(indent: str, *, scale: int) -> str | None:
    return None if len(indent) % scale else indent[: len(indent) // scale]


def _apply(shift: Shift, text: str) -> str | None:
    lines: list[str] = []
    for line in text.split("\n"):
        indent = shift(_indent(line)) if line.strip() else ""
        if indent is None:
            return None
        lines.append(indent + line.lstrip(" \t") if line.strip() else line)
    return "\n".join(lines)


def _surrounded(text: str, old: str, new: str) -> Iterator[str]:
    """Interpret the blank lines at the ends as surrounding both texts, and as intended."""
    if not old.strip() or text.count(old.strip("\n")) != 1:
        return
    place = text.index(old.strip("\n"))
    start, end = len(text[:place].rstrip("\n")), place + len(old.strip("\n"))
    stop = end + len(text[end:]) - len(text[end:].lstrip("\n"))
    sides = [(place - start, *map(_head, (old, new))), (stop - end, *map(_tail, (old, new)))]
    changed = [there + is_ - was for there, was, is_ in sides]
    told = [there if was == is_ else is_ for there, was, is_ in sides]
    for before, after in (changed, told):
        yield text[:start] + "\n" * before + new.strip("\n") + "\n" * after + text[stop:]
    yield from _with_missing_lines(text, old, new)


def _with_missing_lines(text: str, old: str, new: str) -> Iterator[str]:
    """Interpret the blank lines at the ends as the file's, with a few lines before missing."""
    quoted, ends = re.escape(old.strip("\n")), ("\n" * _head(old), "\n" * _tail(old))
    lacking = rf"(?:[^\n]+\n){{1,{_LACKING_MAX}}}"
    for pattern in (
        rf"{ends[0]}{quoted}{ends[1][1:]}{lacking}\n",
        rf"\n{lacking}{ends[0][1:]}{quoted}{ends[1]}",
    ):
        found = re.search(pattern, text) if min(map(len, ends)) else None
        if found:
            yield text[: found.start()] + new + text[found.end() :]


def _head(text: str) -> int:
    return len(text) - len(text.lstrip("\n"))


def _tail(text: str) -> int:
    return len(text) - len(text.rstrip("\n"))


def _indent(line: str) -> str:
    match = re.match(r"[ \t]*", line)
    return match[0] if match else ""


def _parses(text: str) -> bool:
    try:
        with warnings.catch_warnings(action="ignore"):
            ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True
