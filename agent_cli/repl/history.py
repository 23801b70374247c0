"""Prompts of earlier sessions, for the arrow keys. Imported before the first prompt."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from prompt_toolkit.history import FileHistory

# The first prompt waits for this: a megabyte takes 30 ms, and pasted texts are included.
_READ_BYTES_MAX: Final = 1_000_000


class PrivateHistory(FileHistory):
    """The prompts of all sessions in one private file; only the last part of it is offered.

    A prompt that cannot be stored is still sent, and stays in this session's history; *warn* gets
    one sentence the first time.
    """

    def __init__(self, path: Path, *, warn: Callable[[str], None]) -> None:
        self._path = path
        self._warn: Callable[[str], None] | None = warn
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)
            path.chmod(0o600)
        except OSError as error:
            self._warn_once(error)
        super().__init__(path)

    def load_history_strings(self) -> Iterable[str]:
        """Return the stored prompts, newest first."""
        try:
            return _prompts_at_the_end_of(self._path)
        except OSError as error:
            self._warn_once(error)
            return ()

    def store_string(self, string: str) -> None:
        """Append *string* to the file."""
        try:
            super().store_string(string)
        except OSError as error:
            self._warn_once(error)

    def _warn_once(self, error: OSError) -> None:
        warn, self._warn = self._warn, None
        if warn:
            warn(f"{self._path}: prompts are not kept for later sessions: {error.strerror}")


def _prompts_at_the_end_of(path: Path) -> list[str]:
    """Return the last prompts, newest first, in `FileHistory` format: + before lines, a date."""
    with path.open("rb") as file:
        file.seek(max(file.seek(0, os.SEEK_END) - _READ_BYTES_MAX, 0))
        text = file.read().decode(errors="replace")
    # Before the first date there is nothing, or the rest of a prompt.
    _, *stored = text.split("\n# ")
    return [
        "\n".join(line[1:] for line in each.split("\n") if line.startswith("+"))
        for each in reversed(stored)
    ]
