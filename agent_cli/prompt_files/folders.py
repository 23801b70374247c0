"""Find prompt files in folders that may be anything: in an untrusted workspace too.

Nothing here raises for a link to a name that is too long, or a folder that cannot be read, unlike
`Path.is_file` and `Path.glob`: a repository could otherwise keep the program from starting.
"""

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from agent_cli.system.paths import is_file
from agent_cli.system.trees import walk

_FOLDERS_MAX: Final = 200


def markdown_files(folder: Path) -> Sequence[Path]:
    """Return the Markdown files of *folder*, by path."""
    return sorted(path for path in entries_of(folder) if path.suffix == ".md" and is_file(path))


def nested_markdown_files(folder: Path) -> Iterator[Path]:
    """Yield the Markdown files of *folder* and of the folders in it, by path, up to a limit.

    Limited: the folder is read before it is trusted, and may be a link to a whole disk.
    """
    for where, folders, names in islice(walk(folder), _FOLDERS_MAX):
        folders.sort()
        for name in sorted(names):
            path = Path(where, name)
            if path.suffix == ".md" and is_file(path):
                yield path


def entries_of(folder: Path, entries_max: int | None = None) -> Sequence[Path]:
    """Return the entries of *folder*, in no order; none if it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return [Path(entry.path) for entry in islice(entries, entries_max)]
    except OSError:
        return ()
