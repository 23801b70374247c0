"""Find the git folders of a workspace, and the files in them that make git start programs.

Only reads files; git itself is not run, because a repository can make it start any program.
"""

import os
import stat
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice, takewhile
from pathlib import Path

from agent_cli.sandbox.git_config import hook_folders, included, pieces_of_commands
from agent_cli.sandbox.report import if_there, raise_shortage
from agent_cli.system.fixed_paths import start_of
from agent_cli.system.paths import exists, is_dir, is_file, real_path, xdg_config_dir
from agent_cli.system.records import dataclass

_POINTER = "gitdir:"
_POINTER_BYTES_MAX = 1_048_576  # as git
# Each folder takes mounts. A command could make many folders, so that those of the user get none:
# the folders beyond this limit are watched, and beyond the next one nothing can be changed.
_MOUNTED_MAX = 50
WATCHED_MAX = 500
_INCLUDED_MAX, _NAMED_MAX = 20, 50
_LOGS_MAX = 2_000
_CONFIGURATION = frozenset({"config", "config.worktree"})
_MORE_CONFIGURATION = ("commondir", "config.worktree")
_OF_THE_SYSTEM = Path("/etc/gitconfig")
REBASE_STEPS = "git-rebase-todo"


@dataclass(frozen=True, slots=True)
class GitFolders:
    """The folders in which git keeps a repository.

    Attributes:
        writable: The folders that commits are written to.
        protected: Paths in them, existing or missing, that commands must not change.
        watched: Missing files that would redirect git if a command created them. They cannot be
            blocked by placeholders, because git stops if it finds anything else there.
        beyond: Paths, existing or missing, that commands must not change either, but that are too
            many to be mounted.
        is_complete: Whether all paths are known; if not, the whole repository is protected.
        named: What the configuration, or the user's own, names in the working tree, or the first
            beside itself: folders of hooks, files that it includes, programs; and what links
            among the hooks lead to there. Existing or missing.
    """

    writable: tuple[Path, ...] = ()
    protected: tuple[Path, ...] = ()
    watched: tuple[Path, ...] = ()
    beyond: tuple[Path, ...] = ()
    is_complete: bool = True
    named: tuple[Path, ...] = ()


def git_folders(root: Path) -> GitFolders:
    """Return the git folders of the repository that contains the real directory *root*."""
    return GitSearch().around(root)


def configuration(root: Path) -> Sequence[str]:
    """Return the texts of the configuration that git uses in the real directory *root*.

    That of submodules and worktrees of the repository counts, and the files that any includes.
    """
    found = git_folders(root)
    named = [each for each in (*found.protected, *found.beyond) if each.name in _CONFIGURATION]
    return [*_with_included([*_users_files(), *named]).values()]


class GitSearch:
    """One search for the folders of repositories: reads the user's configuration once."""

    def __init__(self, searched_max: int = WATCHED_MAX) -> None:
        """Search at most *searched_max* folders of submodules of a repository, and of worktrees."""
        self._searched_max = searched_max

    def around(self, root: Path) -> GitFolders:
        """Return the git folders of the repository that contains the real directory *root*."""
        for directory in (root, *root.parents):
            entry = directory / ".git"
            try:
                mode = os.lstat(entry).st_mode
            except OSError:
                continue
            if stat.S_ISLNK(mode):
                return self._of_symlink(entry, directory)
            if stat.S_ISDIR(mode):
                return self.of_repository(entry)
            if stat.S_ISREG(mode):
                return self._of_pointer(entry, directory)
        return GitFolders()

    def of_repository(self, folder: Path) -> GitFolders:
        """Return *folder*, the `.git` of an ordinary repository, and the protected paths in it."""
        if not _has_head(folder):
            # It may get one later, also from `git init`, which keeps an existing configuration.
            return GitFolders(protected=(folder, folder / "hooks", folder / "config"))
        modules = _submodules(folder / "modules", self._searched_max)
        trees = _some_folders(folder / "worktrees", self._searched_max)
        if modules is None or trees is None:
            return GitFolders(protected=(folder,), is_complete=False)
        near, far = modules[:_MOUNTED_MAX], modules[_MOUNTED_MAX:]
        protected = [each / name for each in (folder, *near) for name in ("hooks", "config")]
        # Git reads configuration from these too, also in worktrees elsewhere.
        more = [*_more_configuration((folder, *near, *trees[:_MOUNTED_MAX]))]
        is_there = {path: exists(path) for path in more}
        protected += [path for path in more if is_there[path]]
        missing = tuple(path for path in more if not is_there[path])
        beyond = [each / name for each in far for name in ("hooks", "config")]
        beyond += _more_configuration((*far, *trees[_MOUNTED_MAX:]))
        beyond += _links_out(folder, (*modules, *trees))
        steps = (f"{each}/rebase-merge/{REBASE_STEPS}" for each in (folder, *modules, *trees))
        beyond += map(Path, filter(os.path.exists, steps))
        named = self._named(folder, folder.parent) if folder.name == ".git" else ()
        return GitFolders((folder,), tuple(protected), missing, tuple(beyond), named=named)

    def _of_symlink(self, entry: Path, directory: Path) -> GitFolders:
        """Return the folders behind a link; a link out of *directory* makes nothing writable."""
        [folder] = pointed_at(entry)
        if not folder.is_relative_to(directory) or not is_dir(folder):
            return GitFolders()
        found = self.of_repository(folder)
        return replace(found, watched=(*found.watched, entry))

    def _of_pointer(self, entry: Path, directory: Path) -> GitFolders:
        """Return the folders of a worktree or submodule, whose `.git` is a file that names them.

        A command can write such a file, so it counts only if the folder it names points back here.
        """
        found_at = pointed_at(entry)
        if not found_at:
            return GitFolders()
        folder = found_at[0]
        common = named_folder(folder, _line(folder / "commondir") or ".")
        if _line(folder / "gitdir") == str(entry) and folder.parent == common / "worktrees":
            found = self.of_repository(common)
            own = tuple(
                path
                for name in ("commondir", "gitdir", "config.worktree")
                if exists(path := folder / name)
            )
            named = (*found.named, *self._named(common, directory))
            return replace(found, protected=(*found.protected, *own, entry), named=named)
        if _worktree_of(folder) == directory:
            found = self.of_repository(folder)
            named = self._named(folder, directory)
            return replace(found, protected=(*found.protected, entry), named=named)
        return GitFolders()

    def _named(self, folder: Path, tree: Path) -> tuple[Path, ...]:
        """Return what the configuration in *folder*, and the user's, name inside *tree*.

        Git starts its programs at the top of the working tree *tree*; a relative include lies
        beside the file that includes it.
        """
        git = (folder / "config", folder / "config.worktree")
        hooks = str(folder / "hooks")
        links = [each.path for each in _entries(hooks) if each.is_symlink()]
        led = map(real_path, [*filter(os.path.islink, [hooks]), *links])
        found = {to: None for to in led if _is_below(to, tree) and not _is_below(to, folder)}
        files = [*git]
        for file in files:  # grows
            text = _read(file)
            for path in map(real_path, _included(file, text)):
                if _is_below(path, tree, folder):
                    found[path] = None
                    files += [path] if path not in files and len(files) < _INCLUDED_MAX else []
            found |= dict.fromkeys(_in_tree(text, folder, tree))
        own = [path for path in found if path not in git][:_NAMED_MAX]
        # The aliases of a user are full of words, and any may be the name of a file somewhere.
        users = (
            path
            for text in self._users.values()
            for path in _in_tree(text, folder, tree, words=False)
        )
        return tuple(dict.fromkeys((*own, *islice(users, _NAMED_MAX))))

    @cached_property
    def _users(self) -> Mapping[Path, str]:
        return users_configuration()


def _links_out(folder: Path, more: Iterable[Path]) -> Iterator[Path]:
    """Yield links in *folder*, and in its subfolders *more*, that lead git's writes elsewhere."""
    for each in (folder, *more):
        for link in _links(str(each)):
            if not real_path(link).is_relative_to(real_path(folder)):
                yield link


def _links(folder: str) -> Iterator[Path]:
    """Yield the links at the top of the git folder *folder*, and in its logs of local branches.

    The logs of other references are left out: they may be thousands, and only a `git fetch` or a
    push writes them.
    """
    heads = f"{folder}/logs/refs/heads"
    # None behind a link: what is there is not git's.
    steps = (folder, f"{folder}/logs", f"{folder}/logs/refs", heads)
    waiting = [*takewhile(_is_real_folder, steps)]
    for path in islice(waiting, _LOGS_MAX):  # grows
        for entry in _entries(path):
            if entry.is_symlink():
                yield Path(entry.path)
            elif path.startswith(heads) and entry.is_dir():
                waiting.append(entry.path)


def _is_real_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _entries(folder: Path | str, count: int = _LOGS_MAX) -> "Sequence[os.DirEntry[str]]":
    found: list[os.DirEntry[str]] = []
    with if_there(), os.scandir(folder) as entries:
        found.extend(islice(entries, count))
    return found


def users_configuration() -> Mapping[Path, str]:
    """Return the files of git's configuration for every repository, included ones, with texts."""
    return _with_included(_users_files())


def _users_files() -> list[Path]:
    chosen = os.environ.get("GIT_CONFIG_GLOBAL")
    own = [xdg_config_dir() / "git" / "config", Path.home() / ".gitconfig"]
    return [_OF_THE_SYSTEM, *([Path(chosen)] if chosen else own)]


def _with_included(files: list[Path]) -> Mapping[Path, str]:
    texts: dict[Path, str] = {}
    files_max = len(files) + _INCLUDED_MAX
    for file in files:  # grows
        if file not in texts and len(texts) < files_max:
            texts[file] = _read(file)
            files += _included(file, texts[file])
    return texts


def _included(file: Path, text: str) -> Iterator[Path]:
    # Not behind a link: what that file includes lies beside the link for git.
    for name in filter(None, included(text)):
        yield file.parent / os.path.expanduser(name)  # noqa: PTH111


def _in_tree(text: str, folder: Path, tree: Path, *, words: bool = True) -> Iterator[Path]:
    """Yield what a configuration names inside *tree*; with *words* also without a folder."""
    for name in hook_folders(text):
        path = named_folder(tree, str(name))
        if _is_below(path, tree) and not folder.is_relative_to(path):
            yield path
    for piece in pieces_of_commands(text):
        if not words and "/" not in piece:
            continue
        path = tree / os.path.expanduser(piece)  # noqa: PTH111
        is_path = "/" in piece and " " not in piece and not is_dir(path)
        if _is_below(path, tree) and (is_path or is_file(path)):
            yield Path(os.path.normpath(path))


def _is_below(path: Path, *folders: Path) -> bool:
    normal = Path(os.path.normpath(path))
    return any(normal != folder and normal.is_relative_to(folder) for folder in folders)


def _more_configuration(folders: Iterable[Path]) -> Iterator[Path]:
    return (each / name for each in folders for name in _MORE_CONFIGURATION)


def pointed_at(entry: Path) -> tuple[Path, ...]:
    """Return the real folders that *entry*, a `.git` link or file, names; () for another file.

    The first one is where git goes. Blanks around the name belong to it for git, but not for
    libgit2, which editors use.
    """
    if entry.is_symlink():
        return (real_path(entry),)
    keyword, colon, name = _read(entry).rstrip("\r\n").partition(":")
    if keyword + colon != _POINTER:
        return ()
    names = name.removeprefix(" "), name.strip()
    return tuple(named_folder(entry.parent, each) for each in names)


def shared_folders(folder: Path) -> tuple[Path, ...]:
    """Return the real folders that git and libgit2 use for the configuration of *folder*."""
    name = _read(folder / "commondir")
    return tuple(named_folder(folder, each) for each in (name.rstrip("\r\n"), name.strip()))


def named_folder(base: Path, name: str) -> Path:
    """Return the real folder of *name*, read from a file of git and relative to *base*."""
    # Git reads it as a C string.
    return real_path(base / name.partition("\0")[0])


def _submodules(top: Path, searched_max: int) -> list[Path] | None:
    """Return the git folders of submodules below *top*, None if there are too many.

    They may be nested, and their names may have slashes. Links are followed, as git does, but each
    folder is searched once: links may form a circle.
    """
    found: list[Path] = []
    seen = set[str]()
    waiting = deque([top])
    while waiting:
        folders = _some_folders(waiting.popleft(), searched_max)
        if folders is None:
            return None
        for path in folders:
            real = os.path.realpath(path)
            if real in seen:
                continue
            if len(seen) == searched_max:
                return None
            seen.add(real)
            is_module = _has_head(path)
            found += [path] if is_module else []
            waiting.append(path / "modules" if is_module else path)
    return found


def _has_head(folder: Path) -> bool:
    # Git takes a link to a branch without commits, too.
    return os.path.lexists(f"{folder}/HEAD")


def _some_folders(folder: Path, entries_max: int) -> list[Path] | None:
    """Return the folders in *folder*, sorted; None if it has more than *entries_max* entries."""
    names = [entry.name for entry in _entries(folder, entries_max + 1)]
    if len(names) > entries_max:
        return None
    return [path for path in (folder / name for name in sorted(names)) if is_dir(path)]


def _worktree_of(folder: Path) -> Path | None:
    """Return the directory that the configuration in *folder* names as its worktree."""
    for line in _read(folder / "config").splitlines():
        name, _, value = line.partition("=")
        if name.strip() == "worktree":
            return named_folder(folder, value.strip())
    return None


def _line(path: Path) -> str:
    return _read(path).strip()


def _read(path: Path) -> str:
    try:
        return start_of(path, _POINTER_BYTES_MAX).decode(errors="surrogateescape")
    except OSError as error:
        raise_shortage(error)
        return ""
