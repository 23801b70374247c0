"""Wrap the program's own sentences between words."""

import re
from collections.abc import Iterator
from typing import Final

from agent_cli.repl.live.paint import colored, rows_of
from agent_cli.repl.markdown.styles import cells, wrapped

_GAP: Final = re.compile(r" {2,}(?=\S)")
_BAR: Final = re.compile(r"  (?:\S{1,30} )?│ ")


def sentence_rows(text: str, columns: int, begin: str = "") -> list[str]:
    """Return *text* as rows of at most *columns* cells; indentation is kept.

    Text behind a gap of two blanks is a column, and wraps below its own beginning; the bar that
    marks quoted text is repeated before each of its rows. A wider word, such as a URL, is left
    whole, so that a copy has no newline in it. *begin* is the escape sequence that begins the
    colour of each row.
    """
    lines = rows_of(text)
    return [colored(row, begin) for line in lines for row in _broken(line, columns)]


def _broken(line: str, columns: int) -> Iterator[str]:
    if bar := _BAR.match(line):
        begin, text = bar[0], line[bar.end() :]
        for start, end in wrapped(text, max(columns - cells(begin), 1)):
            yield f"{begin}{text[start:end]}"
            begin = f"{' ' * (cells(begin) - 2)}│ "
        return
    indent = min(len(line) - len(line.lstrip(" ")), columns // 2)
    gaps = (gap.end() for gap in _GAP.finditer(line))
    column = max((end for end in gaps if end <= columns // 2), default=indent)
    begin, text = line[:column], line[column:]
    for start, end in wrapped(text, max(columns - cells(begin), 1)):
        yield f"{begin}{text[start:end]}"
        begin = " " * cells(begin)
