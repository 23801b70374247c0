"""Name a folder once for files in a row: `src/{a.py,b.py}`; nothing is left out; pure."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

# A shorter list is read as it is.
_LISTED_MIN: Final = 12
_GROUP_MIN: Final = 3
_LINE_CHARS_MAX: Final = 400
# Up to three words or columns, a path, and what every line says behind it.
_LISTED: Final = re.compile(
    r"(?P<lead>\t|(?:(?:\[\w+\]|[A-Za-z?!]+:?|\d{6}) +){0,3}|\t[a-z ]+: +)"
    r"(?P<folder>(?:[\w.@+~=%-]*/)+)(?P<name>[\w.@+~=%-]+)(?P<tail>/?(?: [a-z][a-z ,/]+\.?)?)$"
)


class _Listed(NamedTuple):
    lead: str
    folder: str
    tail: str
    name: str


def grouped_names(lines: Sequence[str]) -> tuple[list[str], int]:
    """Return *lines* with names in one folder on one line, and how many lines that saved."""
    grouped: list[str] = []
    at = 0
    while at < len(lines):
        end = at
        run: list[_Listed] = []
        while end < len(lines) and (listed := _listed(lines[end])):
            run.append(listed)
            end += 1
        if len(run) >= _LISTED_MIN:
            grouped += _joined(run, lines[at:end])
        else:
            grouped += lines[at : max(end, at + 1)]
        at = max(end, at + 1)
    return grouped, len(lines) - len(grouped)


def _listed(line: str) -> _Listed | None:
    if "/" not in line or not (match := _LISTED.match(line)):
        return None
    return _Listed(match["lead"], match["folder"], match["tail"], match["name"])


def _joined(run: Sequence[_Listed], lines: Sequence[str]) -> list[str]:
    joined: list[str] = []
    at = 0
    while at < len(run):
        lead, folder, tail, name = run[at]
        names = [name]
        chars = len(lead) + len(folder) + len(name) + len(tail)
        while at + len(names) < len(run) and chars < _LINE_CHARS_MAX:
            following = run[at + len(names)]
            if following[:3] != (lead, folder, tail):
                break
            names.append(following.name)
            chars += len(following.name) + 1
        if len(names) >= _GROUP_MIN:
            joined.append(f"{lead}{folder}{{{','.join(names)}}}{tail}")
        else:
            joined += lines[at : at + len(names)]
        at += len(names)
    return joined
