"""The directory that a session works in."""

from pathlib import Path
from typing import NamedTuple

from agent_cli.app.arguments import Arguments


class SessionFolder(NamedTuple):
    """The arguments of a session, and the directory whose worktree it works in, or None."""

    arguments: Arguments
    copy_of: Path | None = None
