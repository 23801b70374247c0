"""Where secrets and repositories lie in a workspace, kept up to date by one stat a directory."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePath

# Other people's code and generated files: many "keys" for tests, none of the user's.
_SKIPPED = frozenset(
    {
        *(".git", "node_modules", ".venv", "venv", "site-packages", "vendor", "target", "dist"),
        *("__pycache__", ".tox", ".nox", ".mypy_cache", ".ruff_cache", ".pytest_cache"),
    }
)
_DIRECTORIES_MAX = 5_000
_TICK_NS = 100_000_000


@dataclass(slots=True)
class Contents:
    """What was found, nearest to the root first.

    Attributes:
        secrets: Real paths of the files that *is_secret* names.
        git_folders: Of the repositories below the root; its own is not among them.
        git_files: What stands for such a folder in worktrees and submodules below the root.
    """

    secrets: list[Path] = field(default_factory=list)
    git_folders: list[Path] = field(default_factory=list)
    git_files: list[Path] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Directory:
    changed_ns: int
    secrets: tuple[Path, ...]
    below: tuple[Path, ...]
    git_folders: tuple[Path, ...]
    git_files: tuple[Path, ...]


class SecretIndex:
    """The files below a root that *is_secret* names, links followed to what they stand for."""

    def __init__(self, root: Path, is_secret: Callable[[PurePath], bool]) -> None:
        self._root = root
        self._is_secret = is_secret
        self._known: dict[Path, _Directory] = {}

    def contents(self) -> Contents:
        """Return what is there now.

        Looks at 5,000 directories at most; what lies deeper in a larger tree is not found.
        """
        found = Contents()
        waiting = [self._root]
        seen: dict[Path, _Directory] = {}
        while waiting and len(seen) < _DIRECTORIES_MAX:
            following: list[Path] = []
            for path in waiting:
                directory = self._directory(path)
                if directory is not None:
                    seen[path] = directory
                    found.secrets += directory.secrets
                    found.git_folders += directory.git_folders
                    found.git_files += directory.git_files
                    following += directory.below
            waiting = following
        self._known = seen
        return found

    def _directory(self, path: Path) -> _Directory | None:
        try:
            changed_ns = path.stat().st_mtime_ns
            # Two changes within one tick of the clock have one time; so soon after, look again.
            if time.time_ns() - changed_ns < _TICK_NS:
                changed_ns = 0
            known = self._known.get(path)
            if known is not None and known.changed_ns == changed_ns != 0:
                return known
            with os.scandir(path) as entries:
                listed = list(entries)
        except OSError:
            return None
        folders = [Path(each.path) for each in listed if each.is_dir(follow_symlinks=False)]
        git = [each for each in listed if each.name == ".git" and path != self._root]
        return _Directory(
            changed_ns,
            secrets=tuple(self._secrets(listed)),
            below=tuple(each for each in folders if each.name not in _SKIPPED),
            git_folders=tuple(Path(e.path) for e in git if e.is_dir(follow_symlinks=False)),
            git_files=tuple(Path(e.path) for e in git if e.is_file(follow_symlinks=False)),
        )

    def _secrets(self, entries: "list[os.DirEntry[str]]") -> Iterator[Path]:
        for entry in entries:
            # Below the root only: a name above it is where the user chose to work.
            inside = PurePath("/", os.path.relpath(entry.path, self._root))
            # Not entry.is_dir: an error, if it is a link into somebody else's private directory.
            if self._is_secret(inside) and not os.path.isdir(entry.path):  # noqa: PTH112
                yield Path(os.path.realpath(entry.path))
