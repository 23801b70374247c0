"""The rules for one command, how it is started in the sandbox, and the files that this needs."""

import os
import secrets
import shlex
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol, TypeAlias

from agent_cli.sandbox.path_sets import holds, is_inside, unique
from agent_cli.sandbox.seccomp import filter_program
from agent_cli.system.launching import Restriction, restricted
from agent_cli.system.paths import is_dir, real_path
from agent_cli.system.records import dataclass, field
from agent_cli.system.temporary_files import OwnFolder

SHELL = "/bin/sh"
# Programs that end if they cannot write to a cache, whose default is in the home directory.
_CACHES = {
    "UV_CACHE_DIR": "uv",
    "GOCACHE": "go-build",
    "CCACHE_DIR": "ccache",
    "ZIG_GLOBAL_CACHE_DIR": "zig",
    "PRE_COMMIT_HOME": "pre-commit",
}
# npm needs one even to pack. Without this folder in the home directory, none is read there.
_NPM_CACHE = "~/.npm/_cacache"
# Where others keep what they download. Without a network they read what the home directory has.
_DOWNLOADS = {"npm_config_cache": "npm", "CARGO_HOME": "cargo", "GOMODCACHE": "go-mod"}


def temporary_variables(folder: str | Path, caches: str | Path = "") -> dict[str, str]:
    """Return the variables that have programs write temporary files, and caches, to *folder*.

    Caches to the folder *caches*, if there is one. A cache that the user's own variable names stays
    where it is.
    """
    names = _CACHES
    if not is_dir(Path(_NPM_CACHE).expanduser()):
        names = {**_CACHES, "npm_config_cache": _DOWNLOADS["npm_config_cache"]}
    return {"TMPDIR": str(folder), **_in_caches(caches or folder, names)}


def _in_caches(folder: str | Path, names: Mapping[str, str]) -> dict[str, str]:
    return {
        name: f"{folder}/.cache/{cache}" for name, cache in names.items() if name not in os.environ
    }


def _nothing() -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules for one command: real paths in the current state of the disk.

    Attributes:
        writable: Directories; everything else is read-only.
        read_only: Existing paths inside `writable` that must not change.
        missing: Paths inside `writable` that do not exist and must not be created.
        watched: Paths that must not change either, but cannot be mounted on.
        hidden: Files and directories that must not be read, but for what `writable` and `visible`
            name in them; what appears in them while the command runs is hidden, too.
        network: Whether other hosts may be reached.
        executed: Those of `read_only` that are too large to be kept and put back.
        visible: Directories that stay readable although nothing in them is writable. Of a link, its
            name alone.
        is_apart: Whether it may use no cache that other commands write, since it judges these.
    """

    writable: tuple[Path, ...]
    read_only: tuple[Path, ...]
    missing: tuple[Path, ...]
    watched: tuple[Path, ...]
    hidden: tuple[Path, ...]
    network: bool
    executed: tuple[Path, ...] = ()
    visible: tuple[Path, ...] = ()
    is_apart: bool = False

    @property
    def shown(self) -> Sequence[Path]:
        """The directories that commands may read, whatever lies around them."""
        return (*self.visible, *self.writable)

    @property
    def opened_folders(self) -> Sequence[Path]:
        """Those of `hidden` that hold a directory which commands may read."""
        above = {parent for path in self.shown for parent in path.parents}
        return [path for path in self.hidden if path in above]

    @property
    def unreadable(self) -> Sequence[Path]:
        """What is hidden now: of a folder that holds one of `shown`, what lies beside it."""
        opened = frozenset(self.opened_folders)
        return [
            part
            for path in self.hidden
            for part in (beside(path, self.shown) if path in opened else (path,))
            if not part.is_symlink()
        ]

    def opened(self, readable: Sequence[Path], writable: Sequence[Path]) -> "Rules":
        """Return these rules, in which the command may also use these folders.

        Of a hidden folder that holds one, all that lies beside that stays hidden.
        """
        folders = (*readable, *writable)
        return replace(
            self,
            writable=(*self.writable, *writable),
            visible=unique((*self.visible, *readable)),
            hidden=tuple(path for path in self.hidden if path not in folders),
        )


Change: TypeAlias = Callable[[Rules], Rules] | None
"""Returns the rules for one command, from those for any; None: they are the same."""


def beside(path: Path, folders: Sequence[Path]) -> Iterator[Path]:
    """Yield *path*, or what lies in it beside *folders*; all links in it, too."""
    if path in folders:
        return
    if not holds(path, folders):
        yield path
        return
    try:
        entries = sorted(path.iterdir())
    except OSError:
        yield path
        return
    for entry in entries:
        if entry.is_symlink():
            yield entry
        else:
            yield from beside(entry, folders)


class WayOut(Protocol):
    """The way of one command to the network, which the sandbox closes to it otherwise."""

    @property
    def mounts(self) -> Sequence[tuple[Path, str]]:
        """Files and folders, and where each is to be in the sandbox."""
        ...

    @property
    def prefix(self) -> Sequence[str]:
        """The program that opens it in the sandbox, and its arguments; the command follows."""
        ...

    @property
    def variables(self) -> Mapping[str, str]:
        """The variables by which programs find it."""
        ...

    def close(self) -> Sequence[str]:
        """Close it; return sentences about its use."""
        ...


@dataclass(frozen=True, slots=True)
class Confinement:
    """The parameters; call `release` once the command and all its processes have ended.

    Attributes:
        prefix: The program that builds the sandbox, and its arguments; the command follows.
        files: Files for that program to read, by the number of the descriptor each must have.
        environment: Variables that replace our own.
        restriction: The restrictions that the command's process first applies to itself.
        release: Frees everything; returns a sentence about each file that was restored. The sandbox
            keeps a list of the files that appeared, until `Sandbox.settle`.
        nested: Whether the command runs in a process namespace of its own, not in our group.
        hidden: The paths that the command cannot read.
        rest: The number of the descriptor from which the program reads the `rest_of` its arguments,
            made by another confinement while it starts; -1: it has its own.
        shell: The first shell of a nested command. With `rest` a link, made by the last of these
            arguments: a part of them, without what the others hide, starts nothing.
    """

    prefix: Sequence[str] = ()
    files: Sequence[tuple[int, str]] = ()
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    restriction: Restriction | None = None
    release: Callable[[], Sequence[str]] = _nothing
    nested: bool = False
    hidden: Sequence[Path] = ()
    rest: int = -1
    shell: str = SHELL

    def continues(self, begun: "Confinement") -> bool:
        """Return whether `rest_of` is for the program that *begun* started, and no other."""
        return not self.prefix or self.prefix[0] == begun.prefix[0]

    def rest_of(self, begun: "Confinement") -> bytes:
        """Return the arguments for the program that *begun* started, each with a NUL behind it."""
        words = [*self.prefix[1:-1], "--symlink", SHELL, begun.shell]
        return b"".join(os.fsencode(word) + b"\0" for word in words)

    @property
    def is_sandbox(self) -> bool:
        """Whether it confines at all."""
        return bool(self.prefix) or self.restriction is not None

    def reaching(self, way: WayOut) -> "Confinement":
        """Return the confinement with *way* as its only one to the network; for bubblewrap only.

        If a rule hides a program of *way*, without one: the command would not start.
        """
        programs = [real_path(word) for word in way.prefix if word.startswith("/")]
        if any(each.is_relative_to(path) for each in programs for path in self.hidden):
            way.close()
            return self
        mounts = [
            word
            for path, inside in way.mounts
            if not any(map(Path(inside).is_relative_to, self.hidden))
            for word in ("--ro-bind", str(path), inside)
        ]
        release = self.release

        def close() -> Sequence[str]:
            return [*way.close(), *release()]

        return replace(
            self,
            prefix=[*self.prefix[:-1], *mounts, "--", *way.prefix],
            environment={
                **self.environment,
                **_in_caches(self.environment["TMPDIR"], _DOWNLOADS),
                **way.variables,
            },
            release=close,
        )

    def around(self, command: Sequence[str]) -> list[str]:
        """Return the command line of *command* in the sandbox, for any way to start programs."""
        if self.restriction is not None:
            return restricted(self.restriction, command)
        # A program opens no files at numbers of its choice for another one; a shell does.
        opened = " ".join(f"{number}<{shlex.quote(path)}" for number, path in self.files)
        inner = [*self.prefix, *command]
        return ["/bin/sh", "-c", f'exec {opened} "$@"', "sh", *inner] if opened else inner


@dataclass(frozen=True, slots=True)
class Candidate:
    """A program that may build the sandbox, found but not yet tried.

    `refusal` says why it must not be run; "" if it may. With `is_short` only for want of resources.
    """

    program: Path
    refusal: str = ""
    is_short: bool = False


@dataclass(frozen=True, slots=True)
class SandboxFiles:
    """A temporary directory for commands, an unreadable file and directory, and a filter.

    The filter refuses system calls; bubblewrap reads it from a file. With a `scratch` directory,
    for one command, the temporary one is read-only. Where `is_apart`, caches are not in the
    temporary one but in `apart`.
    """

    folder: OwnFolder
    temporary: Path
    hiding_file: Path
    hiding_directory: Path
    filter: Path
    scratch: Path | None = None
    is_apart: bool = False

    @classmethod
    def create(cls) -> "SandboxFiles":
        """Create them in a directory that no other user can enter."""
        folder = OwnFolder()
        path = folder.path
        made = cls(folder, path / "tmp", path / "hidden", path / "hidden.d", path / "filter")
        made.temporary.mkdir(mode=0o700)
        made.apart.mkdir(mode=0o700)
        made.hiding_file.touch(mode=0o000)
        made.hiding_directory.mkdir(mode=0o000)
        made.filter.write_bytes(filter_program() or b"")
        return made

    @property
    def apart(self) -> Path:
        """The directory for caches of what judges commands."""
        return self.folder.path / "apart"

    @property
    def for_writing(self) -> Sequence[Path]:
        """The directory for temporary files, and the one for caches if that is another."""
        return (self.scratch or self.temporary, *((self.apart,) if self.is_apart else ()))

    def exist(self) -> bool:
        """Return whether all still exist: the system may clean up /tmp after some days."""
        return (
            self.temporary.is_dir()
            and self.apart.is_dir()
            and self.hiding_file.is_file()
            and self.hiding_directory.is_dir()
            and self.filter.is_file()
        )

    def make_way(self, paths: Iterable[Path]) -> None:
        """Put aside what commands made in `/tmp` where *paths* of it are to be mounted.

        Bubblewrap follows links there, also out of the sandbox, and builds none at a file.
        """
        for path in paths:
            for folder, own in (
                (Path("/tmp"), self.temporary),
                (Path("/var/tmp"), self.for_writing[-1]),
            ):
                if path != folder and is_inside(path, folder):
                    _put_aside(own, path.relative_to(folder).parts)

    def with_scratch(self) -> "SandboxFiles":
        """Return these files with a new directory for the temporary files of one command."""
        return replace(self, scratch=Path(tempfile.mkdtemp(prefix="once-", dir=self.folder.path)))

    def remove(self) -> None:
        """Delete them and all files that commands left there."""
        self.folder.remove()


def _put_aside(folder: Path, names: Sequence[str]) -> None:
    """Rename the first of *names* in *folder* if not each of them is a folder in the one before."""
    at = folder
    for name in names:
        at /= name
        if not os.path.lexists(at):
            return
        if at.is_symlink() or not is_dir(at):
            # Of what lies deeper, another command may swap the folders above.
            aside = folder / f"{names[0]}.{secrets.token_hex(4)}"
            with suppress(FileNotFoundError):
                (folder / names[0]).rename(aside)
            return
