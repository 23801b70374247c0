"""Files as an editor has them open, unsaved changes included."""

from pathlib import Path
from typing import Protocol


class Documents(Protocol):
    """Port to an editor that reads and writes text files; called from threads, may block."""

    def read(self, path: Path) -> str | None:
        """Return the editor's text of *path*; None when it cannot tell."""
        ...

    def write(self, path: Path, text: str) -> bool:
        """Write *text* to *path*; return False when the editor cannot and changed nothing.

        Raises:
            ToolError: It is unknown whether the file was written.
        """
        ...
