"""Port to the record of files the agent changed."""

from collections.abc import Sequence
from typing import Protocol

from agent_cli.contracts.file_changes import FileChangesPort, TakenBack


class FileChanges(FileChangesPort, Protocol):
    """The changes of the current session. Every method blocks: call them in a thread."""

    def take_back(self) -> TakenBack:
        """Undo the last run that changed files, and inform the model with the next request.

        Raises:
            AgentCliError: Nothing, or not everything, was undone; the message says why.
        """
        ...

    def changed_runs(self) -> Sequence[str]:
        """Return the prompts whose changes can be undone, oldest first.

        Raises:
            AgentCliError: The record of changes cannot be read.
        """
        ...

    def commands(self, *, last_run: bool = False) -> Sequence[str]:
        """Return the commands of the session, or of its last run, that may have changed files.

        Raises:
            AgentCliError: The record of changes cannot be read.
        """
        ...
