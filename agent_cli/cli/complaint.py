"""Messages of the program on standard error when no prompt is on the screen."""

import os
import sys
from contextlib import suppress


def print_complaint(text: str) -> None:
    """Print *text* to stderr; on a terminal its lines wrap between words.

    It may hold the name of a file, or words of a server, with control sequences for the terminal.
    """
    from agent_cli.terminal.sanitize import reveal  # as below

    sys.stderr.write(f"{_fitted(reveal(f'agent-cli: {text}'))}\n")


def _fitted(text: str) -> str:
    if not sys.stderr.isatty():
        return text  # a file gets unbroken lines, for tools that search it
    import textwrap  # a start that succeeds complains of nothing

    columns = 0
    with suppress(OSError):
        columns = os.get_terminal_size(sys.stderr.fileno()).columns
    lines = textwrap.TextWrapper(columns or 80, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines.fill(line) for line in text.split("\n"))
