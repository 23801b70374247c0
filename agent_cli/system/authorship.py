"""Find out who could have written a file, or what its name leads to: the user or a stranger.

Trust, sandbox, hooks, tools, batch, attachments and MCP ask `author_of`, and decide what follows.
It looks at where things lie, not at what they are called: a link is judged by the folder that holds
the link, and again by the folder that holds its target. It reads names and the pointers of git, and
starts nothing.
"""

import errno
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from agent_cli.system import paths
from agent_cli.system.paths import Identity, identity, real_path
from agent_cli.system.records import dataclass
from agent_cli.system.repositories import git_folder_at, pointer_in

_LINKS_MAX: Final = 40
_WORKTREES_MAX: Final = 100
_SEARCHED_MAX: Final = 200_000


class Author(StrEnum):
    """The possible writers of a file."""

    USER = "user"
    """Only the user, or who has the user's rights outside of this session."""
    INSTALLATION = "installation"
    """Who installed this program; the file lies in our own Python environment or package."""
    WORKSPACE = "workspace"
    """A stranger: whoever wrote the repository, or a command or tool of this session."""
    UNKNOWN = "unknown"
    """The links lead in a circle, a folder cannot be read, or too much had to be searched."""

    @property
    def is_stranger(self) -> bool:
        """Whether the content must be treated as a stranger's; an unknown author counts as one."""
        return self in (Author.WORKSPACE, Author.UNKNOWN)


class Authorship(NamedTuple):
    """The possible writers of a file, and the folder that tells.

    Attributes:
        decided_by: The link, folder or file that decided; for a message.
    """

    author: Author
    decided_by: Path


@dataclass(frozen=True, slots=True)
class SessionFolders:
    """Folders whose content a stranger may have written, and folders inside that are not theirs.

    Attributes:
        roots: The workspace, the added directories, and what belongs to their repositories.
        home: The user's home directory. Where a root holds it, the settings in it
            (`is_home_setting`) stay the user's: no tool and no sandboxed command may write those.
        own: This program's settings and records: the user's, wherever they lie.
        installation: Our own Python environment, and our package.
    """

    roots: tuple[Path, ...]
    home: Path
    own: tuple[Path, ...]
    installation: tuple[Path, ...]

    @classmethod
    def of(cls, *opened: Path) -> "SessionFolders":
        """Return the folders of a session in which *opened* are the workspace and added folders.

        With each of them come the repositories around it, their main checkout if one is a worktree
        or a submodule, and their worktrees elsewhere. A repository that holds the home directory
        (of dotfiles) is left out unless it is opened itself.
        """
        home = real_path(Path.home())
        roots: dict[Path, None] = {}
        for folder in map(real_path, opened):
            roots[folder] = None
            for around in (folder, *folder.parents):
                if home.is_relative_to(around):
                    if around == folder:
                        continue
                    break
                if paths.exists(around / ".git"):
                    beside = (around, *_checkouts(around))
                    roots |= dict.fromkeys(b for b in beside if not home.is_relative_to(b))
        own = (paths.config_dir(), paths.state_dir())
        return cls(tuple(roots), home, own, installation_folders())


def author_of(path: Path, session: SessionFolders) -> Authorship:
    """Return who could have written the file *path*, or what it names.

    Everything that the lookup of *path* goes through counts, each by where it lies: every link in
    its middle and at its end, every folder that a `..` leaves again, and the file itself. If a
    stranger could have put one of them there, the file is the stranger's; if not, the file itself
    decides. Folders are compared by device and inode, so another spelling or a bind
    mount of a root is that root. A file outside that has another name (a hard link) inside a root
    counts as the workspace's. A missing file is judged by the folder that would hold it, a folder
    as the place of new files.

    The answer is about now: use only the path that was judged, without following links again
    (`system.fixed_paths`), where a command may run in between.

    Args:
        path: Absolute, or relative to the current directory; `~` was expanded.
        session: The folders of the session.
    """
    return _Judge(session).judged(path)


def refuse_strangers_link(path: Path) -> None:
    """Refuse to write below *path* if a link in the repository around us leads there.

    The user named the folder, and a stranger may have put a link in its place.

    Raises:
        OSError: There is such a link.
    """
    found = author_of(path, SessionFolders.of(Path.cwd()))
    if found.author.is_stranger and found.decided_by.is_symlink():
        raise OSError(
            errno.ELOOP, f"{found.decided_by} is a link that may be a stranger's", str(path)
        )


def is_home_setting(name: str) -> bool:
    """Return whether the entry *name* of a home directory is the user's settings or programs."""
    return name.startswith(".") or name.casefold() == "bin"


def installation_folders() -> tuple[Path, ...]:
    """Return our Python environment, and the folder of our package, without repetition."""
    package = Path(__file__).parents[1]
    return tuple(dict.fromkeys(map(real_path, (Path(sys.prefix), package))))


class _Step(NamedTuple):
    """A step of a lookup, with the folders it lies in, outermost first, and their identities."""

    path: Path
    above: Sequence[tuple[Path, Identity | None]]


class _Judge:
    """Judges paths against the folders as they are on the disk now."""

    def __init__(self, session: SessionFolders) -> None:
        self._session = session
        self._roots = _identities(session.roots)
        self._own = _identities(session.own)
        self._installation = _identities(session.installation)
        self._home = identity(session.home)

    def judged(self, path: Path) -> Authorship:
        """Return the worst author among all steps of the lookup of *path*."""
        end = Authorship(Author.UNKNOWN, path)
        try:
            for step in _lookup(path):
                end = Authorship(self._author_at(step), step.path)
                if end.author is Author.WORKSPACE:
                    return end
            if linked := self._another_name(end.decided_by):
                return Authorship(Author.WORKSPACE, linked)
        except OSError:
            return Authorship(Author.UNKNOWN, path)
        return end

    def _author_at(self, step: _Step) -> Author:
        """Return who can put something at *step*: the innermost known folder decides."""
        at_home = next((n for n, (_, each) in enumerate(step.above) if each == self._home), None)
        names = [folder.name for folder, _ in step.above] + [step.path.name]
        in_settings = at_home is not None and is_home_setting(names[at_home + 1])
        for number in range(len(step.above) - 1, -1, -1):
            folder = step.above[number][1]
            if folder in self._own:
                return Author.USER
            if folder in self._roots:
                holds_home = at_home is not None and number <= at_home
                return Author.USER if holds_home and in_settings else Author.WORKSPACE
            if folder in self._installation:
                return Author.INSTALLATION
        return Author.USER

    def _another_name(self, path: Path) -> Path | None:
        """Return a hard link of the file *path* in a root, if it has one that can change it.

        Raises:
            OSError: The roots hold too many entries to search.
        """
        try:
            state = path.lstat()
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(state.st_mode) or state.st_nlink < 2:
            return None
        # Who may neither write a file nor change its mode gains nothing from another name of it.
        if state.st_uid != os.geteuid() and not os.access(path, os.W_OK):
            return None
        found = zip(range(_SEARCHED_MAX + 1), self._entries(), strict=False)
        for count, entry in found:
            if count == _SEARCHED_MAX:
                raise OSError(f"{path} has other names, and the workspace is too large to search")
            if entry.inode() == state.st_ino and not entry.is_dir(follow_symlinks=False):
                other = entry.stat(follow_symlinks=False)
                if os.path.samestat(other, state):
                    return Path(entry.path)
        return None

    def _entries(self) -> "Iterator[os.DirEntry[str]]":
        """Yield the entries in the roots, without folders in them that are not a stranger's."""
        ours = {str(folder) for folder in (*self._session.own, *self._session.installation)}
        home = str(self._session.home)
        waiting = [str(root) for root in self._session.roots if str(root) not in ours]
        while waiting:
            folder = waiting.pop()
            with suppress(OSError), os.scandir(folder) as entries:
                for entry in entries:
                    if entry.path in ours or (folder == home and is_home_setting(entry.name)):
                        continue
                    yield entry
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)


def _lookup(path: Path) -> Iterator[_Step]:
    """Yield the steps of the lookup of *path* that decide where it leads; the last is its end.

    Raises:
        OSError: The links lead in a circle, or a folder on the way may not be searched.
    """
    links = 0
    at = Path("/")
    above: list[tuple[Path, Identity | None]] = [(at, identity(at))]
    left = list(reversed(path.absolute().parts[1:]))
    while left:
        name = left.pop()
        if name == "..":
            if len(above) > 1:
                folder, _ = above.pop()
                # Whoever can replace this folder by a link decides where the rest leads.
                yield _Step(folder, tuple(above))
            continue
        here = above[-1][0] / name
        state = _state(here)
        if state and stat.S_ISLNK(state.st_mode):
            yield _Step(here, tuple(above))
            links += 1
            if links > _LINKS_MAX:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
            target = here.readlink()
            if target.is_absolute():
                del above[1:]
            left += reversed(target.parts[1:] if target.is_absolute() else target.parts)
            continue
        if not left and not (state and stat.S_ISDIR(state.st_mode)):
            yield _Step(here, tuple(above))
            return
        above.append((here, (state.st_dev, state.st_ino) if state else None))
    yield _Step(above[-1][0], tuple(above))


def _state(path: Path) -> os.stat_result | None:
    """Return the state of *path* itself; None if there is nothing.

    Raises:
        OSError: The folder may not be searched, or the name is too long.
    """
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as error:  # a NUL in it
        raise OSError(errno.EINVAL, "not a name of a file", str(path)) from error


def _identities(folders: Sequence[Path]) -> frozenset[Identity]:
    return frozenset(found for found in map(identity, folders) if found)


def _checkouts(folder: Path) -> Iterator[Path]:
    """Yield the main checkout of the repository *folder*, and its worktrees elsewhere.

    Git's own pointers are read, as it is started nowhere where a stranger may have configured it. A
    forged pointer only makes one more folder a stranger's.
    """
    try:
        git = real_path(git_folder_at(folder))
    except OSError:
        return
    # The git folder of a worktree or a submodule lies in that of the main checkout.
    main = next((each for each in (git, *git.parents) if each.name == ".git"), None)
    if main is None:
        return
    if paths.is_dir(main):
        yield main.parent
    with suppress(OSError), os.scandir(main / "worktrees") as entries:
        for entry in islice(entries, _WORKTREES_MAX):
            with suppress(OSError):
                beside = Path(entry.path)
                pointed = real_path(beside / pointer_in(beside / "gitdir"))
                if pointed.name == ".git" and paths.exists(pointed):
                    yield pointed.parent
