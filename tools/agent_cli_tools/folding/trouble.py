"""Tell lines about trouble from others, and leave out the middle of lines that say alike; pure.

A line with a word of trouble is never left out. A word within a path, a package or an option, such
as `error.c`, `http-errors` and `-Wno-error`, is none.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

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
    """Return whether *line* tells of trouble."""
    lowered = line.lower()
    return any(hint in lowered for hint in _HINTS) and bool(_TROUBLE.search(line))


def ends_of(lines: Sequence[str]) -> Iterator[str]:
    """Yield the first and the last of *lines*, and the number between; there are three at least."""
    yield lines[0]
    yield f"[{len(lines) - 2:,} lines like these]"
    yield lines[-1]
