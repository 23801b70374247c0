"""Find what lies outside a workspace and a command need not reach: the person's files, and sockets.

A command that only looks, and that nobody was asked about, sees the workspace, the system, and
installed programs with their files; not the other projects and documents of the person. No command
reaches the sockets of other programs, through which it could make them act.
"""

import os
import stat
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from agent_cli.sandbox.path_sets import holds
from agent_cli.system.programs import users_path

HIDDEN_MAX = 200
"""Each path costs a mount for each command; with more than this, nothing is hidden."""

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
_TEMPORARY = ("/tmp", "/var/tmp", "/private/tmp")
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
_PROGRAM_FOLDERS = frozenset({"bin", "sbin", "shims", "Scripts"})


def personal_files(home: Path, workspace: Sequence[Path]) -> Sequence[Path] | None:
    """Return the files and folders of people that lie beside the folders of *workspace*.

    Returns:
        Real paths without symlinks, whose targets count by themselves; None if there are more than
        `HIDDEN_MAX`.
    """
    kept = [*workspace, *_installed(home), *(home / name for name in _TOOLS_IN_HOME)]
    around = {parent for path in (*workspace, home / "x") for parent in path.parents}
    around = {each for each in around if not any(map(each.is_relative_to, _TEMPORARY))}
    tops = {*around, *map(Path, _OF_PEOPLE)} - _OF_THE_SYSTEM
    found: list[Path] = []
    for path in _beside(sorted(tops), kept):
        found.append(path)
        if len(found) > HIDDEN_MAX:
            return None
    return found


def _beside(folders: Sequence[Path], kept: Sequence[Path]) -> Iterator[Path]:
    """Yield the entries of *folders* that neither hold a path of *kept* nor lie in such a path."""
    above = {parent for path in kept for parent in path.parents}
    inside, left, done = set(kept), list(folders), set[Path]()
    while left:
        folder = left.pop()
        if folder in done or not inside.isdisjoint((folder, *folder.parents)):
            continue
        done.add(folder)
        for entry in _entries(folder):
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
    for given in folders:
        for folder in {given, Path(os.path.realpath(given))}:
            if not folder.is_absolute():
                continue
            around = folder.parent if folder.name in _PROGRAM_FOLDERS else folder
            is_wide = home.is_relative_to(around) or around in _OF_THE_SYSTEM
            yield folder if is_wide else around


def _entries(folder: Path) -> Sequence["os.DirEntry[str]"]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
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
    try:
        lines = Path("/proc/net/unix").read_text(errors="surrogateescape").splitlines()[1:]
    except OSError:
        return []
    # Seven columns, and an eighth for a socket with a name; "@" begins a name without a file.
    names = {column for line in lines for column in line.split(None, 7)[7:]}
    return sorted(
        real
        for name in names
        if name[0] == "/" and _is_socket(real := Path(os.path.realpath(name)))
    )


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
