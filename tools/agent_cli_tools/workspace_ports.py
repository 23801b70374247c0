"""The ports of a workspace: a recorder of file changes, and processes left running."""

from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path
from typing import Protocol


class LeftRunning(Protocol):
    """Port to a process that may outlive its call, but not the workspace."""

    def has_ended(self) -> bool:
        """Whether it has ended by itself."""
        ...

    def close(self) -> None:
        """End it if it still runs, and free its resources."""
        ...


class Keeper(Protocol):
    """Port to a recorder that is notified before files change."""

    def writing(
        self, path: Path, before: bytes | None, after: bytes
    ) -> AbstractContextManager[None]:
        """Return the context manager for writing a file; *before* is None if it is new."""
        ...

    def running(self, command: str) -> AbstractAsyncContextManager[None]:
        """Return the context manager for running a command."""
        ...
