"""The prompt of a run, from the command line and from piped input."""

import select
from collections.abc import Callable
from typing import Final, NamedTuple, TextIO

from agent_cli.contracts.errors import UsageError

_STDIN_LIMIT_S: Final = 3.0


class Given(NamedTuple):
    """The whole text of a prompt, and the part of it that was piped in."""

    text: str
    piped: str = ""


def read_prompt(prompt: str, stdin: TextIO, warn: Callable[[str], None]) -> Given:
    """Return *prompt* with the text piped to *stdin*.

    A pipe that stays open but silent, as under supervisors and CI, is waited for only when the
    whole prompt has to come from it.

    Raises:
        UsageError: Both are empty.
    """
    piped = ""
    if not stdin.isatty():
        if prompt == "-" or select.select([stdin], [], [], _STDIN_LIMIT_S)[0]:
            piped = stdin.read()
        else:
            warn(f"nothing came from stdin within {_STDIN_LIMIT_S:g} s; it is left out")
    parts = [piped] if prompt == "-" else [prompt, piped]
    text = "\n\n".join(part.strip() for part in parts if part.strip())
    if not text:
        raise UsageError("there is no prompt: give one after -p, or pipe one in")
    return Given(text, piped.strip())
