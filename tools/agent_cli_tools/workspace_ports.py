"""What a workspace needs of others: who keeps files' contents, and what calls leave running."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol


class LeftRunning(Protocol):
    """What goes on after the call that started it, at the latest until the workspace closes."""

    def has_ended(self) -> bool:
        """Whether it ended by itself."""
        ...

    def close(self) -> None:
        """End it, if it has not ended, and free what it held."""
        ...


class Keeper(Protocol):
    """Who wants to know what happens to files, before it happens."""

    def writing(
        self, path: Path, before: bytes | None, after: bytes
    ) -> AbstractContextManager[None]:
        """Return what stands around the writing of a file; *before* is None where there is none."""
        ...

    def running(self, command: str) -> AbstractContextManager[None]:
        """Return what stands around a command."""
        ...
