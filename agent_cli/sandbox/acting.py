"""The paths that make programs act, before and after a command; they are only listed here.

Among them are the files and folders in a workspace that programs outside the sandbox run, import
or start from. Whoever may write one of them runs code outside the sandbox: with the next start of
this program, with the next search, with the next hook that begins with `python3`, with the next
shell whose `.bashrc` is a link into the workspace.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from agent_cli.sandbox.git_config import folders_for_every_repository
from agent_cli.sandbox.git_folders import GitFolders, GitSearch, users_configuration
from agent_cli.sandbox.path_sets import outermost, unique
from agent_cli.sandbox.report import if_there
from agent_cli.sandbox.secret_index import Contents
from agent_cli.system.authorship import installation_folders
from agent_cli.system.paths import (
    Identity,
    claude_dir,
    codex_dir,
    config_dir,
    exists,
    identity,
    real_path,
    shared_instructions_file,
    shared_skills_dir,
    xdg_config_dir,
)
from agent_cli.system.programs import users_path
from agent_cli.system.records import dataclass, field

_VENV_MARK = "pyvenv.cfg"


class Located(NamedTuple):
    """A path, with the device and inode of its folder, None if that is missing.

    A command cannot replace a mounted file, but it can rename a folder above it, and then put
    another one of that name there. The mount moves with the folder, and the same path leads to
    another file.
    """

    path: Path
    folder: Identity | None


def located(paths: Iterable[Path]) -> frozenset[Located]:
    """Return *paths* as they are on the disk now."""
    folders: dict[str, Identity | None] = {}
    found = set[Located]()
    for path in paths:
        folder = os.path.dirname(path)  # noqa: PTH120 - for speed: before and after each command
        if folder not in folders:
            folders[folder] = identity(folder)
        found.add(Located(path, folders[folder]))
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class Acting:
    """The paths that make programs act, at one moment.

    Attributes:
        git: Configuration and hooks of repositories.
        pointers: `.git` files and links, which name the folder of a repository.
        others: Settings, folders of hooks, and files that a rule protects from changes.
        unsearched: Folders with too many folders in them to find all these paths.
    """

    git: frozenset[Located]
    pointers: frozenset[Located]
    others: frozenset[Located]
    unsearched: frozenset[Path]


def acting_paths(
    roots: Sequence[Path],
    inside: Sequence[Contents],
    git: Sequence[GitFolders],
    executed: Sequence[Path],
) -> Acting:
    """Return the paths in *inside*, the contents of *roots*, in the folders of git, and *executed*.

    The last are run, imported or read as settings by programs outside.
    """
    searched = zip(roots, inside, strict=True)
    unsearched = [root for root, contents in searched if not contents.is_complete]
    for folders in git:
        unsearched += () if folders.is_complete else folders.protected
    named = [path for each in git for path in each.named]
    others = [path for each in inside for path in (*each.settings, *each.locked)]
    every = (path for each in git for path in (*each.protected, *each.watched, *each.beyond))
    return Acting(
        git=located(every),
        pointers=located(path for each in inside for path in each.git_pointers),
        others=located([*others, *named, *executed]),
        unsearched=frozenset(unsearched),
    )


def new_paths(before: frozenset[Located], after: frozenset[Located]) -> set[Path]:
    """Return the paths that lead to other files than *before*."""
    # A command may have made so many folders that the search did not find the old paths again.
    missed = {each.path for each in before}.difference(each.path for each in after)
    return {each.path for each in (after | located(filter(os.path.lexists, missed))) - before}


def nested_repositories(
    inside: Sequence[Contents], part: slice, search: GitSearch
) -> Iterator[GitFolders]:
    """Yield the git folders of *part* of the repositories inside the roots."""
    folders = [folder for contents in inside for folder in contents.git_folders]
    yield from map(search.of_repository, folders[part])
    files = [file for contents in inside for file in contents.git_files]
    yield GitFolders(protected=tuple(files[part]))


def executed_inside(roots: Sequence[Path]) -> tuple[Path, ...]:
    """Return the paths below *roots*, real folders, that must not change; some may be missing.

    These are our installation, the folders that Python imports from first, and the folders on PATH,
    each of a virtual environment as a whole; and each link on the way to one of them.
    """
    ways: _Ways = {}
    named = (*installed_inside(roots), *_imported(roots, ways), *_imported_first(), *_on_path())
    inside = unique(path for each in named for path in _inside(each, roots, ways))
    return tuple(outermost(inside))


def linked_from_home(roots: Sequence[Path]) -> Mapping[Path, Path]:
    """Return the paths below *roots*, real folders, that settings in the home directory lead to.

    Who keeps settings in a repository and works in it has them act by links: `.bashrc`, `.config/x`
    or `.claude/settings.json`. What such a link leads to is part of its program's settings; it may
    be missing. So is what `.gitconfig` includes. Behind each path stands its name in the home
    directory.
    """
    found: dict[Path, Path] = {}
    ways: _Ways = {}
    for named in _settings_at_home():
        for path in _inside(named, roots, ways):
            found.setdefault(path, named)
    return {path: found[path] for path in outermost(tuple(found))}


def installed_inside(roots: Sequence[Path]) -> tuple[Path, ...]:
    """Return the folders of our installation that lie below *roots*."""
    scripts = Path(sys.executable).parent
    folders = (*installation_folders(), Path(sys.prefix), scripts)
    inside = unique(
        folder
        for folder in folders
        if any(real_path(folder).is_relative_to(root) for root in roots)
        and not any(root.is_relative_to(real_path(folder)) for root in roots)
    )
    return tuple(outermost(inside))


def settings_changes() -> tuple[int, ...]:
    """Return the times of the last changes of the folders with most of the user's settings."""
    folders = (Path.home(), xdg_config_dir(), config_dir(), claude_dir(), codex_dir())
    return tuple(map(_changed_ns, folders))


def _changed_ns(folder: Path) -> int:
    try:
        return os.stat(folder).st_mtime_ns  # noqa: PTH116 - for speed: before each command
    except OSError:
        return 0


_Ways: TypeAlias = dict[str, tuple[str, tuple[str, ...]]]
"""Where paths lie, and the links on the way to each; most of them share their folders."""


def _inside(named: Path, roots: Sequence[Path], ways: _Ways) -> Iterator[Path]:
    """Yield where *named* lies, and each link on the way to it, if that is below *roots*."""
    lies, links = _way(str(named), ways)
    for each in (*links, lies):
        path = Path(each)
        # A workspace inside of a virtual environment can still be worked in.
        if _is_below(each, roots) and not any(root.is_relative_to(path) for root in roots):
            yield path


def _is_below(path: str, roots: Sequence[Path]) -> bool:
    return path != "/" and any(path.startswith(f"{root}/".replace("//", "/")) for root in roots)


def _way(path: str, ways: _Ways) -> tuple[str, tuple[str, ...]]:
    """Return where *path* lies, and each link on the way to it, by the real folder it lies in."""
    if path not in ways:
        folder, name = os.path.split(path)
        if not name or name == "..":
            ways[path] = os.path.realpath(path), _way(folder, ways)[1] if name else ()
        else:
            lies, links = _way(folder, ways)
            here = os.path.join(lies, name)  # noqa: PTH118 - for speed: each edit asks
            if os.path.islink(here):  # noqa: PTH114 - Path's raises in a folder of another user
                ways[path] = os.path.realpath(path), (here, *links)
            else:
                ways[path] = here, links
    return ways[path]


_SETTINGS_FOLDERS: Final = (".local/bin", "bin", ".ssh", ".vim", ".emacs.d", ".gemini", ".cursor")
_OF_CLAUDE: Final = (
    *("settings.json", "CLAUDE.md", "rules", "agents", "skills", "commands", "output-styles"),
)
_OF_CODEX: Final = ("AGENTS.md", "AGENTS.override.md", "skills", "prompts")
_ENTRIES_MAX: Final = 5_000


def _settings_at_home() -> Iterator[Path]:
    """Yield links among the user's settings, and what this program and git read in any case."""
    home, config = Path.home(), xdg_config_dir()
    with if_there(), os.scandir(home) as entries:
        for entry in islice(entries, _ENTRIES_MAX):
            if (entry.name.startswith(".") or entry.name == "bin") and entry.is_symlink():
                yield home / entry.name
    folders = [config, config_dir(), config / "systemd" / "user", claude_dir(), codex_dir()]
    folders += [home / name for name in _SETTINGS_FOLDERS]
    with if_there(), os.scandir(config) as entries:
        folders += [config / each.name for each in islice(entries, _ENTRIES_MAX) if each.is_dir()]
    for folder in dict.fromkeys(folders):
        with if_there(), os.scandir(folder) as entries:
            for entry in islice(entries, _ENTRIES_MAX):
                if entry.is_symlink():
                    yield folder / entry.name
    yield from (claude_dir() / name for name in _OF_CLAUDE)
    yield from (codex_dir() / name for name in _OF_CODEX)
    yield from (shared_skills_dir(), shared_instructions_file())
    git = users_configuration()
    yield from (*git, *folders_for_every_repository(git.values()))


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


def _imported(roots: Sequence[Path], ways: _Ways) -> Iterator[Path]:
    """Yield the packages and modules that are imported: ours, the plugins', and their libraries."""
    note_imports()
    for holder, names in [*_MODULES.names.items()]:
        lies = _way(holder, ways)[0]
        if _is_below(lies, roots) or any(lies == str(root) for root in roots):
            yield from (Path(holder, name) for name in sorted(names))


def _imported_first() -> Iterator[Path]:
    """Yield the folders of PYTHONPATH, whose modules win over installed packages' modules.

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
