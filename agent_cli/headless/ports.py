"""What a run without a REPL needs of the program."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from agent_cli.contracts.file_changes import Difference
from agent_cli.core.agent import Agent


class SessionChanges(Protocol):
    """What the agent did to files."""

    def differences(self) -> Sequence[Difference]:
        """Return what the session left different; blocks, raises AgentCliError."""
        ...


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
    def session_path(self) -> Path | None:
        """The file of that session, if any."""
        ...

    @property
    def workspace(self) -> Path:
        """The directory the tools work in."""
        ...

    @property
    def file_changes(self) -> SessionChanges:
        """What the agent did to files."""
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
