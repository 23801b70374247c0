"""Files as an editor holds them, unsaved changes included."""

from pathlib import Path
from typing import Protocol


class Documents(Protocol):
    """An editor that reads and writes text files for us; called from threads, may take a moment."""

    def read(self, path: Path) -> str | None:
        """Return the text of *path* as the editor has it; None where it cannot say."""
        ...

    def write(self, path: Path, text: str) -> bool:
        """Make *text* the content of *path*; False where the editor cannot, and changed nothing.

        Raises:
            ToolError: Nobody knows whether it was written.
        """
        ...
