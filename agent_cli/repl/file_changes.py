"""What the REPL needs to know about the files the agent changed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol


class TakenBack(Protocol):
    """What became of the changes of a run that was undone."""

    @property
    def run_id(self) -> str:
        """The id of the prompt whose run it was."""
        ...

    @property
    def restored(self) -> Sequence[Path]:
        """Files that hold again what they held before."""
        ...

    @property
    def deleted(self) -> Sequence[Path]:
        """Files that the run had made."""
        ...

    @property
    def commands(self) -> Sequence[str]:
        """What ran then and since, and may have changed things that nobody noted."""
        ...


class Difference(Protocol):
    """A file that is not what it was before the agent changed it."""

    @property
    def path(self) -> Path:
        """Where it is, absolute."""
        ...

    @property
    def kind(self) -> str:
        """What became of it: "new", "deleted" or "changed"."""
        ...

    @property
    def diff(self) -> str:
        """A unified diff without file names, or "" where there is none to show."""
        ...

    @property
    def added(self) -> int:
        """Lines that came."""
        ...

    @property
    def removed(self) -> int:
        """Lines that went."""
        ...

    @property
    def note(self) -> str:
        """What a person should know about it, or ""."""
        ...


class FileChanges(Protocol):
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

    def differences(self, *, last_run: bool = False) -> Sequence[Difference]:
        """Return what the session, or its last run, left different.

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
