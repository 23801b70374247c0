"""Show repeated lines once, and recognise lines about trouble, which always stay; pure."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

_EQUAL_MIN: Final = 3
_GROUP_MAX: Final = 16
_BLOCK_MIN: Final = 6
_BLOCK_CHARS_MIN: Final = 240
_NAME_CHARS_MAX: Final = 60
_ALIKE_MIN: Final = 6


def merged(lines: Sequence[str]) -> Iterator[str]:
    """Yield *lines* with each run of equal lines, or of equal groups of lines, once and a count."""
    if len(set(lines)) == len(lines):
        yield from lines
        return
    ids: dict[str, int] = {}
    keys = [ids.setdefault(line, len(ids)) for line in lines]
    last = [-_GROUP_MAX] * len(ids)
    # Whether a line stands again close enough to begin a group.
    near = [False] * len(keys)
    for index, key in enumerate(keys):
        if index - last[key] <= _GROUP_MAX and last[key] >= 0:
            near[last[key]] = True
        last[key] = index
    at = 0
    while at < len(lines):
        size, times = _repeats(keys, at) if near[at] else (1, 1)
        yield from lines[at : at + size]
        if size > 1:
            yield f"[the {size} lines above ×{times}]"
        elif times > 1 and lines[at].strip():
            yield f"[the line above ×{times}]"
        at += size * times


def _repeats(keys: list[int], at: int) -> tuple[int, int]:
    """Return the size of the group at *at* that is repeated at once, and how many times it stands.

    The smallest group that stands there three times; else the one line, once.
    """
    for size in range(1, min(_GROUP_MAX, (len(keys) - at) // _EQUAL_MIN) + 1):
        end = at + size
        while end < len(keys) and keys[end] == keys[end - size]:
            end += 1
        if (times := (end - at) // size) >= _EQUAL_MIN:
            return size, times
    return 1, 1


def without_repeats(lines: Sequence[str]) -> Iterator[str]:
    """Yield *lines* with a note in place of each block that stands above already, word for word.

    A line about a failure is never part of such a block.
    """
    begins: dict[tuple[str, ...], int] = {}
    at = 0
    while at < len(lines):
        key = tuple(lines[at : at + _BLOCK_MIN])
        size = _repeated(lines, begins[key], at) if key in begins else 0
        if size:
            named = next((name for line in lines[at : at + size] if (name := line.strip())), "")
            yield f"[{size} lines as above, from: {named[:_NAME_CHARS_MAX]}]"
        else:
            begins.setdefault(key, at)
            yield lines[at]
        at += size or 1


def _repeated(lines: Sequence[str], above: int, at: int) -> int:
    """Return how many lines at *at* repeat the lines at *above*; 0 if too few for a note."""
    size = chars = 0
    while above + size < at and at + size < len(lines):
        line = lines[at + size]
        if line != lines[above + size] or FAILURE.search(line):
            break
        size += 1
        chars += len(line)
    return size if size >= _BLOCK_MIN and chars >= _BLOCK_CHARS_MIN else 0


def without_alike(lines: Sequence[str]) -> Iterator[str]:
    """Yield *lines* with the first and the last of log lines in a row that differ in values only.

    Only messages below a warning, and requests that were answered with 1xx to 3xx, count.
    """
    at = 0
    while at < len(lines):
        end = at
        if _is_log(lines[at]):
            shape = _VALUES.sub("0", lines[at])
            while end < len(lines) and _is_log(lines[end]):
                if _VALUES.sub("0", lines[end]) != shape:
                    break
                end += 1
        if end - at >= _ALIKE_MIN:
            yield from ends_of(lines[at:end])
        else:
            end = max(end, at + 1)
            yield from lines[at:end]
        at = end


def _is_log(line: str) -> bool:
    if line[:1] in _LOG_BEGINS and _LEVEL.search(line, 0, _LEVEL_WITHIN):
        return not is_trouble(line)
    return "HTTP/" in line and bool(_ANSWERED.search(line)) and not is_trouble(line)


# A time, a level in brackets or the level itself.
_LOG_BEGINS: Final = frozenset("0123456789[(<IDTNidtn")
_LEVELS: Final = ("INFO", "DEBUG", "TRACE", "NOTICE", "info", "debug", "trace", "notice")
_LEVEL: Final = re.compile(rf"\b(?:{'|'.join(_LEVELS)})\b")
# One of them is in every line that may be left out.
LOG_HINTS: Final = (*_LEVELS, "HTTP/")
_LEVEL_WITHIN: Final = 60
_ANSWERED: Final = re.compile(r"HTTP/[\d.]+\" [123]\d\d\b")
_VALUES: Final = re.compile(r"(?<!\S)\S*\d\S*")


_HINTS: Final = (
    "err",
    "fail",
    "fatal",
    "warn",
    "denied",
    "abort",
    "panic",
    "except",
    "unable",
    "cannot",
    "can't",
    "missing",
    "not found",
    "no such",
    "conflict",
    "undefined",
    "unresolved",
    "refused",
    "killed",
    "timed out",
    "timeout",
    "deprecat",
    "vulnerab",
    "invalid",
    "unexpected",
    "assert",
    "traceback",
    "segmentation",
    "overflow",
    "leak",
)
_TROUBLE: Final = re.compile(
    r"(?<![\w/.@+-])(?:errors?|errored|err|fail\w*|fatal|warn\w*|denied|abort\w*|panic\w*"
    r"|exception\w*|except|unable|cannot|can't|missing|not found|no such|conflict\w*|undefined"
    r"|unresolved|refused|killed|timed out|timeout|deprecat\w*|vulnerab\w*|invalid|unexpected"
    r"|assert\w*|traceback|segmentation|overflow|leak\w*)(?![\w/-]|\.\w)"
    r"|err!|[a-z](?-i:Error|Exception|Warning)\b(?!\.\w)|(?-i:\bE\d{2,}:|^E: )",
    re.IGNORECASE,
)
# What ends with an error that took place; it stays wherever it stands again.
FAILURE: Final = re.compile(
    r"FAIL|ERROR|panic|failed|^E   |^>  |\bassert|[Ee]rror\b|warning:|\bexit\b|Exception|Traceback"
)


def is_trouble(line: str) -> bool:
    """Return whether *line* tells of trouble.

    A word within a path, a package or an option, such as `error.c`, `http-errors` and `-Wno-error`,
    is none.
    """
    lowered = line.lower()
    return any(hint in lowered for hint in _HINTS) and bool(_TROUBLE.search(line))


def ends_of(lines: Sequence[str]) -> Iterator[str]:
    """Yield the first and the last of *lines*, and the number between; there are three at least."""
    yield lines[0]
    yield f"[{len(lines) - 2:,} lines like these]"
    yield lines[-1]
