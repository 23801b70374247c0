"""Completions: commands behind a slash, files behind an @."""

import os
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from agent_cli.repl.commands import COMMANDS

_FILES_MAX: Final = 50_000
_FOUND_MAX: Final = 30
_LIST_LIMIT_S: Final = 5
_AT: Final = re.compile(r"(?:^|\s)@(\S*)\Z")
_SKIPPED: Final = {"node_modules", "__pycache__", "dist", "build"}


class Completions(Completer):
    """Slow only the first time, so it belongs in a thread; files are listed once a session."""

    def __init__(self, files: Callable[[], Sequence[str]]) -> None:
        self._files = files

    def get_completions(self, document: Document, _event: CompleteEvent) -> Iterable[Completion]:
        """Yield what could stand at the cursor, the best first."""
        before = document.text_before_cursor
        if before.startswith("/") and " " not in before and "\n" not in before:
            for command in COMMANDS:
                if command.name.startswith(before[1:]):
                    yield Completion(
                        command.name, -len(before) + 1, f"/{command.name}", command.help
                    )
        elif at := _AT.search(before):
            for path in matches(at[1], self._files()):
                yield Completion(path, -len(at[1]))


def matches(typed: str, paths: Sequence[str]) -> Iterator[str]:
    """Yield the paths that hold *typed*, then those that hold its characters in order.

    *paths* are sorted by length, so that the first ones found are the shortest.
    """
    wanted = typed.lower()
    found = [path for path in paths if wanted in path.lower()]
    yield from found[:_FOUND_MAX]
    if len(found) >= _FOUND_MAX or not wanted:
        return
    # Written so that nothing is tried twice: `.*?` would go back over each path again and again.
    in_order = re.compile("".join(f"[^{re.escape(c)}]*{re.escape(c)}" for c in wanted))
    known, left = set(found), _FOUND_MAX - len(found)
    for path in paths:
        if left and path not in known and in_order.match(path.lower()):
            left -= 1
            yield path


def workspace_files() -> list[str]:
    """Return the files below the working directory, without ignored ones, the shortest first."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, capture_output=True, timeout=_LIST_LIMIT_S, check=True)
        files = [path for path in os.fsdecode(listed.stdout).split("\0") if path]
    except (OSError, subprocess.SubprocessError):  # no git, or no repository
        files = list(_walk(Path.cwd()))
    return sorted(set(files), key=lambda path: (len(path), path))[:_FILES_MAX]


def _walk(root: Path) -> Iterator[str]:
    count = 0
    for folder, folders, names in os.walk(root):
        folders[:] = [f for f in folders if not f.startswith(".") and f not in _SKIPPED]
        for name in names:
            yield str(Path(folder, name).relative_to(root))
            count += 1
            if count >= _FILES_MAX:
                return
