"""The files and folders in a workspace that this program, or the user's hooks, run or import.

Whoever may write one of them runs code outside the sandbox: with the next start of this program,
with the next search, with the next hook that begins with `python3`.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from agent_cli.system.authorship import installation_folders
from agent_cli.system.paths import exists, real_path
from agent_cli.system.programs import users_path
from agent_cli.system.records import dataclass, field

_VENV_MARK = "pyvenv.cfg"


def executed_inside(roots: Sequence[Path]) -> tuple[Path, ...]:
    """Return the paths below *roots*, real folders, that must not change; some may be missing.

    These are our installation, the folders that Python imports from first, and the folders on PATH,
    each of a virtual environment as a whole; and each link on the way to one of them.
    """
    found = dict[Path, None]()
    for named in (*installed_inside(roots), *_imported(roots), *_imported_first(), *_on_path()):
        for path in (*_links_on_the_way(named), real_path(named)):
            is_below = any(path != root and path.is_relative_to(root) for root in roots)
            # A workspace inside of a virtual environment can still be worked in.
            if is_below and not any(root.is_relative_to(path) for root in roots):
                found[path] = None
    return _outermost(found)


def installed_inside(roots: Sequence[Path]) -> tuple[Path, ...]:
    """Return the folders of our installation that lie below *roots*."""
    scripts = Path(sys.executable).parent
    folders = (*installation_folders(), Path(sys.prefix), scripts)
    return _outermost(
        folder
        for folder in folders
        if any(real_path(folder).is_relative_to(root) for root in roots)
        and not any(root.is_relative_to(real_path(folder)) for root in roots)
    )


def _outermost(paths: Iterable[Path]) -> tuple[Path, ...]:
    known = dict.fromkeys(paths)
    return tuple(path for path in known if known.keys().isdisjoint(path.parents))


_LAST_ONES: Final = 64


@dataclass(slots=True)
class _Modules:
    """The folders that modules were imported from, with the names in each; it grows with imports.

    There are a thousand modules in a few folders, and each edit asks.
    """

    last: str = ""
    names: dict[str, set[str]] = field(default_factory=dict[str, set[str]])

    def look(self) -> None:
        """Add the modules that were imported since the last look: they are the last ones."""
        # A copy, at once: other threads import meanwhile.
        last = [*islice(reversed(sys.modules), _LAST_ONES)]
        new = last[: last.index(self.last)] if self.last in last else [*sys.modules][::-1]
        for name in new:
            file = getattr(sys.modules.get(name), "__file__", None)
            if "." in name or name == "__main__" or not file:
                continue
            holder, _, base = str(file).rpartition(os.sep)
            if base.startswith("__init__."):
                holder, _, base = holder.rpartition(os.sep)
            self.names.setdefault(holder or os.sep, set()).add(base)
        self.last = new[0] if new else self.last


_MODULES: Final = _Modules()


def note_imports() -> None:
    """Learn where the modules imported so far come from."""
    _MODULES.look()


def _imported(roots: Sequence[Path]) -> Iterator[Path]:
    """Yield the packages and modules that are imported: ours, those of plugins, their libraries."""
    note_imports()
    for holder, names in [*_MODULES.names.items()]:
        if any(map(real_path(Path(holder)).is_relative_to, roots)):
            yield from (Path(holder, name) for name in sorted(names))


def _imported_first() -> Iterator[Path]:
    """Yield the folders of PYTHONPATH, whose modules win over those of installed packages.

    Folders that a `.pth` file adds come last, and belong to the projects under development.
    """
    for name in os.environ.get("PYTHONPATH", "").split(os.pathsep):
        if name:
            yield Path(name).absolute()


def _on_path() -> Iterator[Path]:
    for name in users_path().split(os.pathsep):
        folder = Path(name)
        if folder.is_absolute():
            yield folder.parent if exists(folder.parent / _VENV_MARK) else folder


def _links_on_the_way(path: Path) -> Iterator[Path]:
    """Yield each link in *path*, by the real folder it lies in."""
    for each in (path, *path.parents):
        if os.path.islink(each):  # noqa: PTH114 - Path's raises in a folder of another user
            yield real_path(each.parent) / each.name
