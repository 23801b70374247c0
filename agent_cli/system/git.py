"""Ask git about a repository that nobody need trust."""

import os
import subprocess
from pathlib import Path

from agent_cli.system.programs import find_program


def git_output(folder: Path, *arguments: str, limit_s: float) -> str | None:
    """Return what git prints in *folder*; None when it fails, is missing or takes too long.

    The git inside *folder* is never run, nor the file system monitor its configuration may name.
    """
    git = find_program("git", outside=folder)
    if git is None:
        return None
    try:
        done = subprocess.run(
            [str(git), "-c", "core.fsmonitor=false", *arguments],
            cwd=folder,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=limit_s,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return os.fsdecode(done.stdout)
