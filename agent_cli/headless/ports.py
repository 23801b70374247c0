"""The ports of a run without a REPL to the program."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from agent_cli.contracts.provider import Model
from agent_cli.contracts.timeline import Json
from agent_cli.core.application import AttachingApplication

if TYPE_CHECKING:
    from agent_cli.contracts.file_changes import FileChangesPort
    from agent_cli.contracts.goals import GoalsPort


class Application(AttachingApplication, Protocol):
    """The application as a headless run uses it."""

    @property
    def session_id(self) -> str | None:
        """The id of the session that records the run, if any."""
        ...

    @property
    def session_path(self) -> Path | None:
        """The file of that session, if any."""
        ...

    @property
    def held_microdollars(self) -> int:
        """The possible cost of this run's calls that broke off; 0 without a limit."""
        ...

    @property
    def undecided_files(self) -> Sequence[Path]:
        """The files that appeared beside commands and await a person's decision."""
        ...

    @property
    def refused_hosts(self) -> Sequence[str]:
        """The hosts that commands could not reach, because nobody could be asked."""
        ...

    def leave(self) -> None:
        """Close without waiting for hooks that are only told of the end."""
        ...

    def require_answer(self, schema: Mapping[str, Json]) -> None:
        """Have the model's answers fit *schema* where its server can hold them to it."""
        ...

    @property
    def refused_commands(self) -> Mapping[str, Sequence[str]]:
        """Commands not allowed to go on as nobody could be asked, each with rules to allow it."""
        ...

    @property
    def goals(self) -> "GoalsPort":
        """The goal of the session."""
        ...

    async def receipts(self) -> Sequence[dict[str, Json]]:
        """Return the last receipt of each kind of check that the model ran."""
        ...

    @property
    def file_changes(self) -> "FileChangesPort":
        """The changes the agent made to files."""
        ...

    async def written_out(self, prompt: str) -> tuple[str, Model | None]:
        """Expand *prompt* if it begins with a command defined by a prompt file.

        Returns:
            The text, and the model it is for; None for the session's model.

        Raises:
            UsageError: The command cannot be used.
        """
        ...
