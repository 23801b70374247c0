"""Name a file once for what compilers and linters find in it; no finding is left out; pure.

Findings of one file with equal texts, with nothing else between them, become one line with all
their positions. Left out are marks below a line of source whose column is known, the line where it
stands already, and the source below the fourth and later findings with one text.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

_PATH_CHARS_MIN: Final = 8
_PATH_CHARS_MAX: Final = 300
_NAMED_MIN: Final = 3
# So many other lines, such as source, may stand between two findings under one name.
_BETWEEN_MAX: Final = 12
_POSITIONS_CHARS_MAX: Final = 400
# Of findings with one text, so many are shown with the source below them.
_SHOWN_MAX: Final = 3

# Where a position begins in a line: path:12:3: text, path:12:3 - error, path:12: error: text,
# path(12,3): text, path:[12,3] text.
_HINT: Final = re.compile(r":\d+:(?: |\d+(?:: | - ))|\(\d|:\[\d|: (?:In|At) ")
_POSITION: Final = re.compile(
    rf"(?P<path>.{{0,{_PATH_CHARS_MAX}}}?)(?:"
    r":(?P<column>\d+:\d+)(?=: \S| - )"
    r"|:(?P<line>\d+)(?=: (?:\w+ )?(?:error|warning|note|info|hint|remark|undefined)\b"
    r"|: \[?[A-Z]{1,6}\d{2,5}\b|:  \S.*\[\w+/\w+\] +\[\d\]$)"
    # path: In function 'f':
    r"|(?P<scope>)(?=: (?:In|At) (?:\w+ )*(?:scope|(?:function|constructor|destructor"
    r"|instantiation|substitution|lambda|expansion)\b.*):$)"
    r"|(?P<bracket>\(\d+(?:,\d+)*\)(?: (?=:))?|:\[\d+,\d+\])(?=: *\S| \S))"
)
_NO_PATH: Final = re.compile(r"[\"'<>|*?={};,\t]|^\s|:(?![\\/]|.*:[\\/]).*: ")
_PATH_END: Final = re.compile(r"[/\\][^/\\ ]+$|\.[A-Za-z]\w{0,9}$")
# ESLint and its kin name the file above.
_BELOW: Final = re.compile(r" +(?P<position>\d+:\d+) +(?P<text>(?:error|warning|info|✖|⚠) +\S.*)$")
# A text with neither has no findings: the time of day in a long list of files looks like one.
_QUICK: Final = re.compile(rf"{_HINT.pattern}| \d+:\d+ +(?:error|warning|info|✖|⚠) ")
# Another line that could be taken for one under a file's name.
_BEGINS: Final = frozenset("0123456789(:")
_AMBIGUOUS: Final = re.compile(r"(?:\d+(?::\d+)?|\(\d+(?:,\d+)*\) ?|:\[\d+,\d+\])(?:,|: | - )|: ")
_SOURCE: Final = re.compile(r" *\d+ \| ")
_BELOW_FINDING: Final = re.compile(r" *(?:\d+ )?\| ")
_ARROW: Final = re.compile(r" *--> \S+:\d+:\d+$")
_GUTTER: Final = re.compile(r" *\| *[\^~_-]*[ |]*$")
_ADVICE: Final = re.compile(r" +[=|] (?:help|note): |help: for further information visit")
_MARKS: Final = re.compile(r" +\| +[\^~+ -]*\^[\^~+ -]*$| +\|$")


class _Finding(NamedTuple):
    path: str
    position: str
    text: str


def grouped_findings(lines: Sequence[str]) -> tuple[list[str], int]:
    """Return *lines* with each file's name once above its findings, and how many lines changed."""
    if not _QUICK.search("\n".join(lines)):
        return [*lines], 0
    found = [_finding(line) if _HINT.search(line) else None for line in lines]
    if any(line[:1] in _BEGINS and _AMBIGUOUS.match(line) for line in lines):
        found = [None] * len(lines)
    grouped: list[str] = []
    count = at = 0
    while at < len(lines):
        end = at
        while end < len(lines) and lines[end][:1] == " " and _BELOW.match(lines[end]):
            end += 1
        if end > at:
            stated = list(_below(lines[at:end]))
            grouped += stated
            count += end - at - len(stated)
            at = end
            continue
        finding = found[at]
        end = _group_end(lines, found, at, finding.path) if finding else at
        named = sum(1 for each in found[at:end] if each)
        if finding and named >= _NAMED_MIN:
            grouped.append(f"{finding.path}:")
            grouped += _without_path(lines[at:end], found[at:end])
            count += named
            at = end
        else:
            grouped.append(lines[at])
            at += 1
    return grouped, count


def without_marks(lines: Sequence[str]) -> Iterator[str]:
    """Yield rustc's, Clippy's and Ruff's findings without gutters, marks and repeated advice.

    The arrow above the source names the column. From the fourth finding with one text on, only
    the arrows stand, below their text.
    """
    if sum(1 for line in lines if _ARROW.match(line)) < _NAMED_MIN:
        yield from lines
        return
    advice: set[str] = set()
    shown: dict[str, int] = {}
    positions: dict[str, list[str]] = {}
    at = 0
    while at < len(lines):
        end = _block_end(lines, at)
        text = lines[at]
        if end > at and (shown.setdefault(text, 0)) >= _SHOWN_MAX:
            positions.setdefault(text, []).append(lines[at + 1].strip().removeprefix("--> "))
            at = end
            continue
        if end > at:
            shown[text] += 1
        end = max(end, at + 1)
        for line in lines[at:end]:
            if _GUTTER.match(line) or line.strip() in advice:
                continue
            if _ADVICE.match(line):
                advice.add(line.strip())
            yield line
        at = end
    for text, listed in positions.items():
        yield text
        yield from (f"  --> {line}" for line in _joined(listed))


def _block_end(lines: Sequence[str], at: int) -> int:
    """Return behind the blank line that ends the finding at *at*; *at* if there is none."""
    if at + 1 >= len(lines) or not _ARROW.match(lines[at + 1]) or not lines[at].strip():
        return at
    end = at + 2
    while end < len(lines) and lines[end].strip() and not _ARROW.match(lines[end]):
        end += 1
    return end + 1 if end < len(lines) and not lines[end].strip() else at


def _finding(line: str) -> _Finding | None:
    match = _POSITION.match(line)  # what a search tries in a long line would be tried far behind
    if not match:
        return None
    path = match["path"]
    if len(path) < _PATH_CHARS_MIN:
        return None
    if _NO_PATH.search(path) or not _PATH_END.search(path):
        return None
    position = match["column"] or match["line"] or match["bracket"] or ""
    return _Finding(path, position, line[match.end() :])


def _group_end(lines: Sequence[str], found: Sequence[_Finding | None], at: int, path: str) -> int:
    """Return behind the last finding in the file of the one at *at*, and its source."""
    end = at + 1
    for index in range(at + 1, len(lines)):
        finding = found[index]
        if finding and finding.path == path:
            end = index + 1
        elif finding or index - end >= _BETWEEN_MAX or _names(lines[index]):
            break
    while end < len(lines) and _BELOW_FINDING.match(lines[end]):
        end += 1
    return end


def _names(line: str) -> bool:
    """Return whether *line* could be taken for the name of a file."""
    return line.endswith(":") and bool(line[:1].strip())


def _without_path(lines: Sequence[str], found: Sequence[_Finding | None]) -> Iterator[str]:
    """Yield the *lines* of one file without its name, findings with equal texts once.

    From the fourth on, the source below such a finding goes too.
    """
    waiting: dict[str, list[str]] = {}
    more: dict[str, list[str]] = {}
    shown: dict[str, int] = {}
    source = ""
    at = 0
    while at < len(lines):
        finding = found[at]
        end = at + 1
        while end < len(lines) and not found[end] and _BELOW_FINDING.match(lines[end]):
            end += 1
        if not finding or not finding.position:
            yield from _stated(waiting)
            waiting.clear()
            yield finding.text if finding else lines[at]
            end = at + 1
        elif end > at + 1 and shown.setdefault(finding.text, 0) >= _SHOWN_MAX:
            more.setdefault(finding.text, []).append(finding.position)
        else:
            shown[finding.text] = shown.get(finding.text, 0) + 1
            waiting.setdefault(finding.text, []).append(finding.position)
            for line in lines[at + 1 : end]:
                if line == source or (":" in finding.position and _MARKS.match(line)):
                    continue
                yield from _stated(waiting)
                waiting.clear()
                source = line if _SOURCE.match(line) else source
                yield line
        at = end
    yield from _stated(waiting)
    yield from _stated(more)


def _below(lines: Iterable[str]) -> Iterator[str]:
    """Yield findings under the name of their file, equal texts once."""
    waiting: dict[str, list[str]] = {}
    for match in map(_BELOW.match, lines):
        if match:
            waiting.setdefault(match["text"], []).append(match["position"])
    return (f"  {line}" for line in _stated(waiting, "  "))


def _stated(waiting: dict[str, list[str]], between: str = "") -> Iterator[str]:
    for text, positions in waiting.items():
        yield from (f"{line}{between}{text}" for line in _joined(positions))


def _joined(positions: Iterable[str]) -> Iterator[str]:
    line = ""
    for position in positions:
        if line and len(line) + len(position) > _POSITIONS_CHARS_MAX:
            yield line
            line = ""
        line += f", {position}" if line else position
    yield line
