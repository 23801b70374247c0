"""What a run without a REPL needs of the program."""

from pathlib import Path
from typing import Protocol

from agent_cli.contracts.file_changes import FileChangesPort
from agent_cli.core.application import AttachingApplication


class Application(AttachingApplication, Protocol):
    """What a headless run needs of the program."""

    @property
    def session_id(self) -> str | None:
        """The session the run is recorded in, if any."""
        ...

    @property
    def session_path(self) -> Path | None:
        """The file of that session, if any."""
        ...

    @property
    def file_changes(self) -> FileChangesPort:
        """What the agent did to files."""
        ...

    async def written_out(self, prompt: str) -> str:
        """Return what *prompt* says: a command's text where it begins with one of the user's.

        Raises:
            UsageError: The command cannot be used.
        """
        ...
