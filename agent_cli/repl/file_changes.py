"""What the REPL needs to know about the files the agent changed."""

from collections.abc import Sequence
from typing import Protocol

from agent_cli.contracts.file_changes import FileChangesPort, TakenBack


class FileChanges(FileChangesPort, Protocol):
    """The changes of the session at hand. All may take a moment: call them in a thread."""

    def take_back(self) -> TakenBack:
        """Undo the last run that changed files, and tell the model before it is asked again.

        Raises:
            AgentCliError: Nothing was done, or not everything; the sentence says why.
        """
        ...

    def changed_runs(self) -> Sequence[str]:
        """Return the prompts whose changes can be taken back, the oldest first.

        Raises:
            AgentCliError: The record of changes cannot be read.
        """
        ...

    def commands(self, *, last_run: bool = False) -> Sequence[str]:
        """Return what ran in the session, or its last run, and may have changed other files.

        Raises:
            AgentCliError: The record of changes cannot be read.
        """
        ...
