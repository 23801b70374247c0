"""Where the secrets in a workspace are, kept up to date at the price of one stat a directory."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class _Directory:
    changed_ns: int
    secrets: tuple[Path, ...]
    below: tuple[Path, ...]


class SecretIndex:
    """The files below a root that *is_secret* names, links followed to what they stand for."""

    def __init__(self, root: Path, is_secret: Callable[[PurePath], bool]) -> None:
        self._root = root
        self._is_secret = is_secret
        self._known: dict[Path, _Directory] = {}

    def secrets(self) -> list[Path]:
        """Return the real paths of all secrets, nearest to the root first.

        Looks at 5,000 directories at most; what lies deeper in a larger tree is not found.
        """
        found: list[Path] = []
        waiting = [self._root]
        seen: dict[Path, _Directory] = {}
        while waiting and len(seen) < _DIRECTORIES_MAX:
            following: list[Path] = []
            for path in waiting:
                directory = self._directory(path)
                if directory is not None:
                    seen[path] = directory
                    found += directory.secrets
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
        below = (
            Path(entry.path)
            for entry in listed
            if entry.is_dir(follow_symlinks=False) and entry.name not in _SKIPPED
        )
        return _Directory(changed_ns, tuple(self._secrets(listed)), tuple(below))

    def _secrets(self, entries: "list[os.DirEntry[str]]") -> Iterator[Path]:
        for entry in entries:
            # Below the root only: a name above it is where the user chose to work.
            inside = PurePath("/", os.path.relpath(entry.path, self._root))
            if self._is_secret(inside) and not entry.is_dir():
                yield Path(os.path.realpath(entry.path))
