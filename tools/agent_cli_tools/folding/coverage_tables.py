"""Leave out the files that tests cover whole from a table of coverage; pure."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

# coverage.py and pytest-cov; Istanbul (nyc, c8, Jest, Vitest); Go; SimpleCov prints none.
_HEAD: Final = re.compile(r"Name +Stmts +Miss|-* *File +\| +% Stmts|ok +\S+\t")
_WHOLE: Final = re.compile(
    r"\S+ +\d+ +0 +(?:\d+ +0 +)?100(?:\.0+)?%\s*$"
    r"| *\S.* \| +100 \| +100 \| +100 \| +100 \|\s*$"
)
_END: Final = re.compile(r"TOTAL\b|[-=|]{20,}$")


def without_covered(lines: Sequence[str]) -> Iterator[str]:
    """Yield *lines* without the rows of files that are covered whole."""
    in_table = False
    for line in lines:
        if _HEAD.match(line):
            in_table = True
        if not (in_table and _WHOLE.match(line) and not line.startswith(("TOTAL", "All files"))):
            yield line
