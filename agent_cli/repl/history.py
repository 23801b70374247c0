"""Prompts of earlier sessions, for the arrow keys. Imported on the way to the first prompt."""

from collections.abc import Callable, Iterable
from pathlib import Path

from prompt_toolkit.history import FileHistory


class PrivateHistory(FileHistory):
    """All sessions' prompts in one file that only its owner can read.

    A prompt that cannot be stored is sent all the same and stays in this session's history; the
    first time that happens, *warn* gets one sentence.
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
            return super().load_history_strings()
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
