"""What a run without a REPL needs of the program."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from agent_cli.core.agent import Agent


class Application(AbstractAsyncContextManager["Application"], Protocol):
    """What a headless run needs of the program; entered and left by the same task."""

    @property
    def agent(self) -> Agent:
        """Who is asked."""
        ...

    @property
    def session_id(self) -> str | None:
        """The session the run is recorded in, if any."""
        ...

    @property
    def why_kept_back(self) -> Callable[[Path], str]:
        """Says why the model may not read a file, or ""."""
        ...

    @property
    def note_attached(self) -> Callable[[Path, bytes], None]:
        """Gets a file the model reads whole with a prompt: it may be edited without a look."""
        ...

    async def written_out(self, prompt: str) -> str:
        """Return what *prompt* says: a command's text where it begins with one of the user's.

        Raises:
            UsageError: The command cannot be used.
        """
        ...
