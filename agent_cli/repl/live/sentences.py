"""The program's own words on a screen: broken between words, and not where the screen ends."""

from collections.abc import Iterator

from agent_cli.repl.live.paint import colored, rows_of
from agent_cli.repl.markdown.cells import wrapped


def sentence_rows(text: str, columns: int, begin: str = "") -> list[str]:
    """Return *text* as rows of at most *columns* cells; what is indented stays so.

    A word that is wider, such as an address, is left whole: copied, it has no newline in it.
    *begin* is the escape that begins the colour of each row.
    """
    lines = rows_of(text)
    return [colored(row, begin) for line in lines for row in _broken(line, columns)]


def _broken(line: str, columns: int) -> Iterator[str]:
    indent = min(len(line) - len(line.lstrip(" ")), columns // 2)
    text = line[indent:]
    for start, end in wrapped(text, max(columns - indent, 1)):
        yield f"{line[:indent]}{text[start:end]}"
