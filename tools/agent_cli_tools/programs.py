"""Where the programs are that the tools themselves start: never one that lies in the workspace."""

import os
import sysconfig
from pathlib import Path


def find_program(name: str, *, outside: Path) -> Path | None:
    """Return the program *name*: of our own installation, or else from PATH.

    A program below *outside*, or in a PATH entry that depends on the current directory, belongs to
    whoever wrote the repository, and is passed over.
    """
    ours = Path(sysconfig.get_path("scripts"))
    directories = [ours, *map(Path, os.environ.get("PATH", os.defpath).split(os.pathsep))]
    for directory in directories:
        program = directory / name
        if not directory.is_absolute() or not os.access(program, os.X_OK) or program.is_dir():
            continue
        # Our own installation may well be a virtual environment inside the workspace.
        if directory == ours or not program.resolve().is_relative_to(outside):
            return program
    return None
