"""Shorten listings, stack traces, tables of coverage, and what makes lines long; pure."""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from agent_cli_tools.folding.repeats import is_trouble

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


_STAMPED_MIN: Final = 20
_DATA_CHARS_MIN: Final = 400
_DATA_CHARS_KEPT: Final = 60

# The clock of a build server, not of a program: fractions of a second, and the time zone.
_STAMP: Final = re.compile(
    r"\[?(?P<minute>\d{4}-\d\d-\d\dT\d\d:\d\d):\d\d\.\d{3,9}Z\]?(?: +|$)|"
    r"(?P<seconds>\[\d\d:\d\d:\d\d\]) "
)
_DATA: Final = re.compile(rf"[A-Za-z0-9+/=_-]{{{_DATA_CHARS_MIN},}}")


def without_times(lines: Sequence[str]) -> tuple[list[str], int]:
    """Cut a build server's times from *lines*; keep them at trouble and where a minute begins."""
    found = [_STAMP.match(line) for line in lines]
    stamped = sum(1 for match in found if match)
    if stamped < _STAMPED_MIN or stamped < len(lines) // 2:
        return [*lines], 0
    gone, minute = 0, ""
    result: list[str] = []
    for line, match in zip(lines, found, strict=True):
        if not match or is_trouble(line):
            result.append(line)
            continue
        now = match["minute"] or match["seconds"][:6]
        result.append(line if now != minute else line[match.end() :])
        gone += now == minute
        minute = now
    return result, gone


def without_middle_of_data(lines: Sequence[str]) -> tuple[list[str], int]:
    """Return *lines* with the two ends of long data (base64, hexadecimal), and how much went."""
    result = [_DATA.sub(_ends, line) if len(line) >= _DATA_CHARS_MIN else line for line in lines]
    return result, sum(map(len, lines)) - sum(map(len, result))


def _ends(data: re.Match[str]) -> str:
    text = data[0]
    # A rule, a number, or a path of words is none.
    if not (re.search(r"\d", text) and re.search(r"[A-Za-z]", text)) or text.count("/") > (
        len(text) / 16
    ):
        return text
    left = len(text) - 2 * _DATA_CHARS_KEPT
    return f"{text[:_DATA_CHARS_KEPT]}[… {left:,} characters …]{text[-_DATA_CHARS_KEPT:]}"


_FRAMES_MIN: Final = 4
_LIBRARY: Final = re.compile(
    # Node, Java and .NET, Ruby, Rust
    r"[#\s]+at .*(?:\(|\b|file://)(?:node:|internal/|\S*/node_modules/)"
    r"|\s+at (?:java\.base/|java\.|javax\.|jdk\.|sun\.|com\.sun\.|org\.junit\.|org\.testng\."
    r"|junit\.|org\.apache\.maven\.|org\.gradle\.|org\.springframework\.|kotlin|scala\."
    r"|org\.mockito\.|org\.hibernate\.|io\.netty\.|System\.|Microsoft\.|Xunit\.|NUnit\.)"
    r"|\s*(?:# |from )\S*/gems/"
    r"|\s+at /rustc/|\s+\d+: (?:core|std|alloc|test|__libc\w*|rust_begin_unwind|_start)\b"
)
_PYTHON: Final = re.compile(
    r'\s*File "[^"]*(?:/site-packages/|/dist-packages/|/lib/python3|<frozen )[^"]*", line \d+'
)
# One of them is in every frame of a library.
FRAME_HINTS: Final = (
    *("at ", "/gems/", 'File "', ": core", ": std", ": alloc", ": test", ": __libc"),
    *(": rust_begin_unwind", ": _start"),
)
_PYTHON_ANY: Final = re.compile(r'\s*File "[^"]*", line \d+')


def without_library_frames(lines: Sequence[str]) -> Iterator[str]:
    """Yield *lines* with the first and the last frame of each run of library frames."""
    at = 0
    while at < len(lines):
        frames = list(_frames(lines, at))
        if len(frames) < _FRAMES_MIN:
            yield lines[at]
            at += 1
            continue
        yield from lines[at : frames[0]]
        yield f"[{len(frames) - 2} frames of libraries]"
        yield from lines[frames[-2] : frames[-1]]
        at = frames[-1]


def _frames(lines: Sequence[str], at: int) -> Iterator[int]:
    """Yield where each library frame of the run at *at* ends."""
    while at < len(lines):
        if _LIBRARY.match(lines[at]):
            at += 1
        elif _PYTHON.match(lines[at]):
            at += 1
            indent = len(lines[at - 1]) - len(lines[at - 1].lstrip())
            # The source of the frame, and what marks a part of it.
            while (
                at < len(lines)
                and lines[at][: indent + 1].isspace()
                and len(lines[at]) > indent
                and not _PYTHON_ANY.match(lines[at])
            ):
                at += 1
        else:
            return
        yield at


# coverage.py and pytest-cov; Istanbul (nyc, c8, Jest, Vitest); Go; SimpleCov prints none.
_HEAD: Final = re.compile(r"Name +Stmts +Miss|-* *File +\| +% Stmts|ok +\S+\t")
_WHOLE: Final = re.compile(
    r"\S+ +\d+ +0 +(?:\d+ +0 +)?100(?:\.0+)?%\s*$"
    r"| *\S.* \| +100 \| +100 \| +100 \| +100 \|\s*$"
)


def without_covered(lines: Sequence[str]) -> Iterator[str]:
    """Yield *lines* without the rows of files that are covered whole."""
    in_table = False
    for line in lines:
        if _HEAD.match(line):
            in_table = True
        if not (in_table and _WHOLE.match(line) and not line.startswith(("TOTAL", "All files"))):
            yield line
