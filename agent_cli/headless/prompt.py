"""The prompt of a run, from the command line and from piped input."""

import select
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Final, NamedTuple, TextIO

from agent_cli.contracts.errors import UsageError

_STDIN_LIMIT_S: Final = 3.0


class PromptText(NamedTuple):
    """The whole text of a prompt, and the piped part."""

    text: str
    piped: str = ""


def read_prompt(prompt: str, stdin: TextIO, warn: Callable[[str], None]) -> PromptText:
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
            warn(f"stdin sent nothing within {_STDIN_LIMIT_S:g} s; it is ignored")
    parts = [piped] if prompt == "-" else [prompt, piped]
    text = "\n\n".join(part.strip() for part in parts if part.strip())
    if not text:
        raise UsageError("there is no prompt: give one after -p, or pipe one in")
    return PromptText(text, piped.strip())


def preparing(text: str) -> AbstractContextManager[None]:
    """Return a spinner on stderr, shown while attached images are shrunk."""
    if "@" not in text or not sys.stderr.isatty():
        return nullcontext()
    from agent_cli.terminal.views.progress import working  # noqa: PLC0415 - rich, often not needed

    return working("preparing attachments", sys.stderr)
