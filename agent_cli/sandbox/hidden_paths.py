"""Find the paths to hide from a command that no rule names: other names of secrets, personal files.

A secret is masked by a mount on its path. Inside the sandbox the mount moves with the file, but the
next command gets new mounts, made from names; so known files are also searched by inode.

A command that only looks, and that nobody was asked about, sees the workspace, the system, and
installed programs with their files; not the other projects and documents of the person. No command
reaches the sockets of other programs, through which it could make them act.
"""

import os
import stat
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

from agent_cli.sandbox.confinement import beside
from agent_cli.sandbox.path_sets import TEMPORARY, holds
from agent_cli.sandbox.report import raise_shortage
from agent_cli.system.loading import late_pattern
from agent_cli.system.paths import real_path
from agent_cli.system.programs import users_path
from agent_cli.system.records import dataclass

Inode: TypeAlias = tuple[int, int]
_ENTRIES_MAX = 1_000_000

HIDDEN_MAX = 2_000
"""Each path costs a tenth of a millisecond for each command; with more, none is hidden."""

_OF_PEOPLE = ("/home", "/Users", "/root", "/mnt", "/media", "/srv", "/Volumes", "/export", "/data")
# Folders of the system: what lies beside a workspace there is installed.
_OF_THE_SYSTEM = frozenset(
    map(
        Path,
        (
            *("/", "/bin", "/boot", "/dev", "/etc", "/gnu", "/lib", "/lib64", "/nix", "/opt"),
            *("/private", "/private/tmp", "/proc", "/run", "/sbin", "/snap", "/sys", "/tmp"),
            *("/usr", "/usr/local", "/usr/local/src", "/usr/src", "/var", "/var/lib", "/var/tmp"),
        ),
    )
)
# Programs, their caches and settings; keys among them are hidden as secrets.
_TOOLS_IN_HOME = (
    *(".asdf", ".bazel", ".bun", ".bundle", ".cabal", ".cargo", ".conda", ".composer", ".deno"),
    *(".dotnet", ".elan", ".gem", ".ghcup", ".gradle", ".hex", ".ivy2", ".julia", ".konan"),
    *(".linuxbrew", ".m2", ".mix", ".npm", ".nuget", ".nvm", ".opam", ".phpenv", ".pixi"),
    *(".pub-cache", ".pyenv", ".rbenv", ".rustup", ".rvm", ".sbt", ".sdkman", ".stack"),
    *(".swiftly", ".volta", ".yarn", "anaconda3", "go", "mambaforge", "miniconda3", "miniforge3"),
    *(".local/bin", ".local/lib", ".local/pipx", ".local/share/mise", ".local/share/pipx"),
    *(".local/share/pnpm", ".local/share/uv", ".local/share/virtualenvs", ".local/share/fnm"),
    *(".cache/pip", ".cache/uv", ".cache/go-build", ".cache/pre-commit", ".cache/pypoetry"),
    *(".cache/yarn", ".cache/node", ".cache/ccache", ".cache/sccache", ".cache/bazel"),
    *(".config/git", ".config/pip", ".config/uv", ".config/go", ".config/pypoetry"),
    *(".gitconfig", ".gitignore", ".gitignore_global", ".gitattributes", ".condarc"),
    *(".bashrc", ".bash_profile", ".bash_aliases", ".profile", ".zshrc", ".zshenv", ".inputrc"),
    *(".editorconfig", ".tool-versions", ".terminfo", ".vimrc", ".pylintrc"),
)
_SOCKET_VARIABLES = (
    *("SSH_AUTH_SOCK", "DOCKER_HOST", "CONTAINER_HOST", "GPG_AGENT_INFO", "WAYLAND_DISPLAY"),
    *("DBUS_SESSION_BUS_ADDRESS", "DBUS_SYSTEM_BUS_ADDRESS", "PULSE_SERVER", "TMUX"),
)
_SOCKET_NAME = late_pattern(r"/[^,;:]+")
_REMOTE = ("nfs", "cifs", "smb", "fuse", "ceph", "afs")
_OCTAL = late_pattern(r"\\([0-7]{3})")
_PROGRAM_FOLDERS = frozenset({"bin", "sbin", "shims", "Scripts"})


@dataclass(frozen=True, slots=True)
class _State:
    """The state of a file at one moment; renaming the file does not change it."""

    inode: Inode
    links: int
    changed_ns: int
    size: int


class OtherNames:
    """Remembers files, and finds them below some folders under other names.

    Attributes:
        is_complete: Whether no search had to stop because the folders hold too much.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = tuple(folders)
        self._known: dict[Path, _State] = {}
        self._links: dict[Path, Inode] = {}
        self._looked_for: frozenset[Inode] = frozenset()
        self.is_complete = True

    def add_folder(self, folder: Path) -> None:
        """Search one more folder; known files are searched for again."""
        self._folders = (*self._folders, folder)
        self._looked_for = frozenset()

    def known(self) -> list[Path]:
        """Return all existing names of the remembered and found files."""
        found = {path: state.inode for path, state in self._known.items()} | self._links
        return [path for path, inode in found.items() if _inode(path) == inode]

    def remember(self, paths: Iterable[Path], *, is_changed: bool) -> None:
        """Remember *paths*, and search for their hard links if there may be new ones.

        Args:
            paths: Real paths.
            is_changed: Whether a folder changed since the last call.
        """
        for path in paths:
            if state := _state(path):
                self._known[path] = state
        linked = frozenset(each.inode for each in self._known.values() if each.links > 1)
        if linked and (is_changed or not linked <= self._looked_for):
            self._links = {path: state.inode for path, state in self._find(linked)}
        self._looked_for = linked

    def follow(self) -> None:
        """Find remembered files that were moved; forget those that were deleted."""
        gone = {path: state for path, state in self._known.items() if _inode(path) != state.inode}
        if not gone:
            return
        sought = {state.inode: state for state in gone.values()}
        moved: dict[Path, _State] = {}
        for path, state in self._find(sought):
            before = sought[state.inode]
            # Inode numbers of deleted files are reused; a moved file has its old time and size.
            if (state.changed_ns, state.size) == (before.changed_ns, before.size):
                moved[path] = state
        left = {path: each for path, each in self._known.items() if path not in gone}
        self._known = left | moved

    def _find(self, inodes: Collection[Inode]) -> Iterator[tuple[Path, _State]]:
        numbers = {number for _device, number in inodes}
        for entry in self._entries():
            # The listing includes the inode number, so only possible matches need a stat().
            if entry.inode() in numbers:
                state = _state(Path(entry.path))
                if state and state.inode in inodes:
                    yield Path(entry.path), state

    def _entries(self) -> "Iterator[os.DirEntry[str]]":
        waiting = [str(folder) for folder in self._folders]
        count = 0
        while waiting and count < _ENTRIES_MAX:
            entries = entries_in(waiting.pop())
            count += len(entries)
            yield from entries
            waiting += [each.path for each in entries if each.is_dir(follow_symlinks=False)]
        # Not true again later: a file that was moved and not found is forgotten.
        self.is_complete = self.is_complete and not waiting


def linked_files(folder: Path) -> list[Path]:
    """Return the files in *folder* that have other hard links, perhaps in the workspace."""
    try:
        return [
            Path(entry.path)
            for entry in os.scandir(folder)
            if entry.is_file(follow_symlinks=False)
            and entry.stat(follow_symlinks=False).st_nlink > 1
        ]
    except OSError as error:
        raise_shortage(error)
        return []  # A file, or missing.


def _state(path: Path) -> _State | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    # The link count of a folder is its number of subfolders.
    links = found.st_nlink if stat.S_ISREG(found.st_mode) else 1
    return _State((found.st_dev, found.st_ino), links, found.st_mtime_ns, found.st_size)


def _inode(path: Path) -> Inode | None:
    state = _state(path)
    return state.inode if state else None


def personal_files(home: Path, workspace: Sequence[Path]) -> Sequence[Path] | None:
    """Return the files and folders of people that lie beside the folders of *workspace*.

    Returns:
        Real paths without symlinks, whose targets count by themselves; None if there are more than
        `HIDDEN_MAX`.
    """
    kept = [*workspace, *_installed(home), *(home / name for name in _TOOLS_IN_HOME)]
    around = {parent for path in (*workspace, home / "x") for parent in path.parents}
    around = {each for each in around if not any(map(each.is_relative_to, TEMPORARY))}
    tops = {*around, *map(Path, _OF_PEOPLE)} - _OF_THE_SYSTEM
    found: list[Path] = []
    for path in _beside(sorted(tops), kept):
        found.append(path)
        if len(found) > HIDDEN_MAX:
            return None
    return found


def beside_shown(
    own: Iterable[Path], writable: Sequence[Path], shown: Sequence[Path]
) -> Iterator[Path]:
    """Yield each folder of *own*, or what lies beside *shown* in one that holds a workspace.

    Of one that is a workspace, nothing.
    """
    for folder in own:
        if not holds(folder, writable):
            yield folder
        elif folder not in writable:
            yield from (path for path in beside(folder, shown) if not path.is_symlink())


def _beside(folders: Sequence[Path], kept: Sequence[Path]) -> Iterator[Path]:
    """Yield the entries of *folders* that neither hold a path of *kept* nor lie in such a path."""
    above = {parent for path in kept for parent in path.parents}
    inside, left, done = set(kept), list(folders), set[Path]()
    while left:
        folder = left.pop()
        if folder in done or not inside.isdisjoint((folder, *folder.parents)):
            continue
        done.add(folder)
        for entry in entries_in(folder):
            if entry.is_symlink() or Path(entry.path) in inside:
                continue
            if Path(entry.path) in above:
                left.append(Path(entry.path))
            else:
                yield Path(entry.path)


def _installed(home: Path) -> Iterator[Path]:
    """Yield the folders of installed programs, with the files beside their `bin`."""
    folders = [Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[1]]
    folders += map(Path, users_path().split(os.pathsep))
    folders += map(Path, filter(None, map(os.environ.get, ("VIRTUAL_ENV", "CONDA_PREFIX"))))
    for path in folders:
        for folder in {path, real_path(path)}:
            if not folder.is_absolute():
                continue
            around = folder.parent if folder.name in _PROGRAM_FOLDERS else folder
            is_wide = home.is_relative_to(around) or around in _OF_THE_SYSTEM
            yield folder if is_wide else around


def entries_in(folder: Path | str) -> Sequence["os.DirEntry[str]"]:
    """Return the entries of *folder*; none if it may not be listed, or is gone.

    Raises:
        OSError: It cannot be listed just now.
    """
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError as error:
        raise_shortage(error)
        return ()


def socket_covers(writable: Sequence[Path]) -> Iterator[Path]:
    """Yield the paths to hide so that no command reaches a socket: each, or a folder above it.

    Never a folder above those that are *writable*, although another user may remove the socket.
    """
    for path in host_sockets():
        if found := cover(path):
            yield path if holds(found, writable) else found


def host_sockets() -> list[Path]:
    """Return the sockets on which other programs listen.

    The private sockets of other users are left out: commands cannot reach them either.
    """
    names = {*_listening(_read("/proc/net/unix")), *mounted_files(_read("/proc/self/mountinfo"))}
    # A program in another network namespace, outside of our container, is in no list.
    for value in filter(None, map(os.environ.get, _SOCKET_VARIABLES)):
        names.update(_SOCKET_NAME.findall(value))
    return sorted({real for name in names if _is_socket(real := real_path(name))})


def _listening(table: str) -> Iterator[str]:
    """Yield the names in a *table* of the kernel's unix sockets."""
    # Seven columns, and an eighth for a socket with a name; "@" begins a name without a file.
    names = (column for line in table.split("\n")[1:] for column in line.split(None, 7)[7:])
    return (name for name in names if name[0] == "/")


def mounted_files(table: str) -> Iterator[str]:
    """Yield the mounted files of a *table* of mounts: a socket may be one, in a container.

    A server of files that does not answer is not asked.
    """
    # Not splitlines(): a name may have other line ends, of which the kernel escapes none.
    for line in filter(None, table.split("\n")):
        before, _, behind = line.partition(" - ")
        _, _, _, root, mount_point, *_ = before.split(" ")
        if root != "/" and not behind.startswith(_REMOTE):
            yield _OCTAL.sub(lambda found: chr(int(found[1], 8)), mount_point)


def _read(table: str) -> str:
    try:
        return Path(table).read_text(errors="surrogateescape")
    except OSError as error:
        raise_shortage(error)
        return ""


def cover(path: Path) -> Path | None:
    """Return *path*, or the outermost folder above it whose entries another user can remove.

    Building a sandbox fails if another user removes a path to mount on, so such a folder is hidden
    as a whole. None if the path cannot be reached.
    """
    for folder, child in pairwise((*reversed(path.parents), path)):
        try:
            state, inner = folder.stat(), child.stat()
        except OSError:
            return None  # Neither we nor a command can reach it.
        if not _is_trusted(state):
            return folder
        others_write = state.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if others_write and not (state.st_mode & stat.S_ISVTX and _is_trusted(inner)):
            return folder
    return path


def _is_trusted(state: os.stat_result) -> bool:
    return state.st_uid in (0, os.geteuid())


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except OSError:
        return False
