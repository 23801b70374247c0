"""What a command may touch: fixed when the program starts, looked up anew for every command.

Knows paths only; how a rule is enforced is the business of the modules beside this one.
"""

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePath

from agent_cli.sandbox.bundled import bundled_files
from agent_cli.sandbox.git_folders import GitFolders, git_folders, of_repository
from agent_cli.sandbox.protected import HOME_NAMES, NAMES
from agent_cli.sandbox.secret_index import Contents, SecretIndex

_IN_HOME = (
    *(".ssh", ".gnupg", ".aws", ".azure", ".kube", ".password-store", ".docker/config.json"),
    *(".netrc", "_netrc", ".pgpass", ".pypirc", ".npmrc", ".yarnrc.yml", ".git-credentials"),
    *(".config/gh", ".config/gcloud", ".config/git/credentials", ".config/op", ".config/hub"),
    *(".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".vault-token"),
    *(".terraform.d/credentials.tfrc.json", ".config/containers/auth.json", ".m2/settings.xml"),
    *(".local/share/keyrings", ".local/share/kwalletd", ".mozilla", ".thunderbird"),
    *(".config/google-chrome", ".config/chromium", ".config/BraveSoftware", "Library/Keychains"),
    *(".bash_history", ".zsh_history", ".python_history", ".psql_history", ".mysql_history"),
)
_OF_THE_SYSTEM = ("/etc/shadow", "/etc/gshadow", "/etc/shadow-", "/etc/gshadow-")

# Each costs half a millisecond a command; beyond, whole directories are hidden.
_HIDDEN_MAX = 60
# Three mounts each, one for the file of a worktree or submodule; those near the root come first.
_NESTED_REPOSITORIES_MAX = 60


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules for one command: real paths, as they are on the disk at this moment.

    Attributes:
        writable: Directories; everything else is read-only.
        read_only: What exists inside `writable` and must stay as it is.
        missing: What does not exist there and must not come into being.
        watched: What must not change either, but cannot be mounted on.
        hidden: Files and directories nobody may read.
        network: Whether other hosts may be reached.
    """

    writable: tuple[Path, ...]
    read_only: tuple[Path, ...]
    missing: tuple[Path, ...]
    watched: tuple[Path, ...]
    hidden: tuple[Path, ...]
    network: bool


class Policy:
    """Turns a workspace and a home into `Rules`.

    The writable directories are decided once and for all: nothing a tool is given moves them.
    """

    def __init__(
        self,
        roots: Sequence[Path],
        *,
        home: Path,
        own: Sequence[Path],
        is_secret: Callable[[PurePath], bool],
        network: bool = False,
    ) -> None:
        """Create the policy of a session.

        Args:
            roots: The workspace and the directories the user added.
            own: Directories of this program that commands have no business in.
            is_secret: Whether a file's path says that it holds keys or passwords.
            network: Whether commands may reach other hosts.
        """
        self.roots = tuple(dict.fromkeys(map(_real, roots)))
        self.home = _real(home)
        self.network = network
        self._own = tuple(map(_real, own))
        self._is_secret = is_secret
        self._secrets = [SecretIndex(root, is_secret) for root in self.roots]

    def rules(self) -> Rules:
        """Look at the disk and return what holds now."""
        inside = [index.contents() for index in self._secrets]
        git = [git_folders(root) for root in self.roots]
        git += _nested(inside)
        writable = [*self.roots, *(path for folders in git for path in folders.writable)]
        protected = _unique(self._protected(git))
        there = [path for path in protected if os.path.lexists(path)]
        watched = [path for folders in git for path in folders.watched]
        # A symlink cannot be mounted on, but what it leads to can.
        watched += [path for path in there if path.is_symlink()]
        secrets = [path for contents in inside for path in contents.secrets]
        hidden = self._hidden(writable, secrets)
        return Rules(
            writable=_unique(writable),
            read_only=_unique(
                real for path in there if _is_there(real := _real(path)) and real not in hidden
            ),
            missing=tuple(path for path in protected if path not in there),
            watched=_unique(watched),
            hidden=hidden,
            network=self.network,
        )

    def owns(self, path: Path) -> bool:
        """Whether *path* lies in the workspace or a directory the user added."""
        return any(map(_real(path).is_relative_to, self.roots))

    def _protected(self, git: Sequence[GitFolders]) -> Iterator[Path]:
        yield from filter(self.owns, (*self._own, *bundled_files()))
        for root in self.roots:
            yield from (root / name for name in NAMES)
            if self.home.is_relative_to(root):
                yield from (self.home / name for name in HOME_NAMES)
                yield from self._settings_in_home()
        for folders in git:
            yield from folders.protected

    def _hidden(self, writable: Sequence[Path], secrets: Sequence[Path]) -> tuple[Path, ...]:
        of_home = [_real(self.home / name) for name in _IN_HOME]
        of_home += [_real(path) for path in self._secret_names(self.home)]
        of_system = [Path(name) for name in _OF_THE_SYSTEM if os.access(name, os.R_OK)]
        wanted = [*of_home, *self._own, *of_system, *host_sockets()]
        found = _unique(path for path in (*wanted, *secrets) if _is_there(path))
        # Whoever works in such a directory wants to see it, and it must not hide the work.
        usable = [path for path in found if not _holds(path, writable)]
        return _fewer(_outermost(usable), keep=(*writable, self.home))

    def _settings_in_home(self) -> Iterator[Path]:
        """Yield what programs keep in the home directory, should that be the workspace.

        No list of start files is complete; elsewhere none of it may be written either.
        """
        for path in _entries(self.home):
            is_work = any(root.is_relative_to(path) for root in self.roots)
            if path.name.startswith(".") and path.name != ".git" and not is_work:
                yield path

    def _secret_names(self, directory: Path) -> list[Path]:
        entries = _entries(directory)
        return [path for path in entries if self._is_secret(PurePath("/", path.name))]


def _nested(inside: Sequence[Contents]) -> Iterator[GitFolders]:
    """Yield what is to be known of the repositories inside the roots."""
    folders = (folder for contents in inside for folder in contents.git_folders)
    yield from map(of_repository, islice(folders, _NESTED_REPOSITORIES_MAX))
    files = (file for contents in inside for file in contents.git_files)
    yield GitFolders(protected=tuple(islice(files, _NESTED_REPOSITORIES_MAX)))


def _entries(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []


def host_sockets() -> list[Path]:
    """Return the sockets other programs listen at: a way to make them act on our behalf.

    Those that other users keep to themselves are out of the reach of commands too.
    """
    try:
        lines = Path("/proc/net/unix").read_text(errors="surrogateescape").splitlines()[1:]
    except OSError:
        return []
    # Seven columns, and an eighth for those that have a name; "@" begins one without a file.
    names = {column for line in lines for column in line.split(None, 7)[7:]}
    return sorted(
        real for name in names if name[0] == "/" and _is_socket(real := _real(Path(name)))
    )


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except OSError:
        return False


def _is_there(path: Path) -> bool:
    # Path.exists raises an error for what lies in somebody else's private directory.
    return os.path.exists(path)  # noqa: PTH110


def _fewer(paths: Sequence[Path], *, keep: Sequence[Path]) -> tuple[Path, ...]:
    """Return *paths*, directories in place of the files in them while there are too many.

    Never a directory that holds one of *keep*.
    """
    left = list(paths)
    while len(left) > _HIDDEN_MAX:
        counts = Counter(path.parent for path in left if not _holds(path.parent, keep))
        fullest = max(counts, key=lambda parent: counts[parent], default=None)
        if fullest is None or counts[fullest] == 1:
            break
        left = [path for path in left if not path.is_relative_to(fullest)]
        left.append(fullest)
    return tuple(left)


def _holds(directory: Path, paths: Sequence[Path]) -> bool:
    return any(path.is_relative_to(directory) for path in paths)


def _outermost(paths: Sequence[Path]) -> list[Path]:
    """Return *paths* without those inside another of them."""
    known = set(paths)
    return [path for path in paths if known.isdisjoint(path.parents)]


def _unique(paths: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(paths))


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
