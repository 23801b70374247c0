"""bubblewrap: mount, process and network namespaces for one command, built before it starts.

Knows the program's options; nothing here starts it, except to read its version and to try
`late_masks`. Most entries of a folder are hidden by one mount: an unreadable copy of its names in
its place.
"""

import hashlib
import os
import re
import secrets
import shlex
import stat
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Final

from agent_cli.sandbox import late_masks
from agent_cli.sandbox.bundled import bundled
from agent_cli.sandbox.confinement import (
    SHELL,
    Candidate,
    Confinement,
    Rules,
    SandboxFiles,
    beside,
    temporary_variables,
)
from agent_cli.sandbox.path_sets import is_in_one, is_inside
from agent_cli.sandbox.report import raise_shortage
from agent_cli.sandbox.seccomp import has_filter
from agent_cli.system.keeper import LEFT_DESCRIPTOR
from agent_cli.system.launching import program
from agent_cli.system.paths import current_folder, real_path
from agent_cli.system.records import dataclass
from agent_cli.system.trees import remove_tree

# The sandbox has its own of these, without any files of the host that would have to be hidden.
REPLACED = (Path("/tmp"), Path("/var/tmp"), Path("/run"), Path("/dev"), Path("/proc"))

# ssh ends at once if its configuration includes a file that is neither the superuser's nor its own.
_INCLUDED_BY_SSH = Path("/etc/ssh/ssh_config.d")

# The first numbers after the standard streams and the launcher's own descriptor.
_FILTER_DESCRIPTOR = LEFT_DESCRIPTOR + 1
_ARGUMENTS_DESCRIPTOR = _FILTER_DESCRIPTOR + 1
# Bubblewrap takes 9,000; some are added, such as ways to the network.
_ARGUMENTS_MAX = 8_900
_VERSION_LIMIT_S = 10.0
_DISABLES_NESTING = (0, 8)
VERSION_MIN = (0, 5)

# The system's program first: where AppArmor forbids namespaces, it allows them for this path.
_SYSTEM = (Path("/usr/bin/bwrap"), Path("/bin/bwrap"), Path("/usr/local/bin/bwrap"))

# With fewer masks, the start of another program takes longer.
_LATE_FROM = 150

# Fewer masks are not worth a copy of their folder.
_STAND_IN_FROM = 8
_STAND_INS: Final = "stand-ins"
_STAND_INS_MAX: Final = 50

# /run is full of other programs' sockets; commands need only the name resolver in it (with a
# network) and, on some systems, the installed programs.
_KEPT_OF_RUN = (Path("/run/current-system"), Path("/run/opengl-driver"))
_KEPT_WITH_NETWORK = (Path("/run/systemd/resolve"), Path("/run/NetworkManager"))


class Bubblewrap:
    """A bubblewrap program, found but not yet tried."""

    def __init__(self, program: Path) -> None:
        self.program = program
        self._masks_late: bool | None = None

    @cached_property
    def version(self) -> tuple[int, ...]:
        """The version that the program prints; () if it does not run.

        Raises:
            OSError: It cannot be started now.
        """
        try:
            run = subprocess.run(
                [self.program, "--version"],
                capture_output=True,
                text=True,
                timeout=_VERSION_LIMIT_S,
                check=False,
                env={},
            )
        except OSError as error:
            raise_shortage(error)
            return ()
        except subprocess.TimeoutExpired:
            return ()
        return tuple(map(int, re.findall(r"\d+", run.stdout)))

    def masks_late(self, own_files: SandboxFiles) -> bool:
        """Return whether `late_masks` works with it here; tried once.

        It does not if the program has the rights of the superuser, who owns its namespaces then.
        """
        if self._masks_late is None:
            tried = own_files.folder.path / "tried"
            tried.write_text("not hidden")
            options = ("--unshare-user", "--cap-drop", "ALL", "--ro-bind", "/", "/")
            inside = [str(self.program), *options, "--tmpfs", "/run"]
            command = [*_with_late_masks([tried], own_files, inside), "--", SHELL, "-c"]
            self._masks_late = self._succeeds([*command, f"! cat {shlex.quote(str(tried))}"])
        return self._masks_late

    def _succeeds(self, command: Sequence[str]) -> bool:
        try:
            run = subprocess.run(
                command, capture_output=True, timeout=_VERSION_LIMIT_S, check=False, cwd="/", env={}
            )
        except OSError as error:
            raise_shortage(error)
            return False
        except subprocess.TimeoutExpired:
            return False
        return run.returncode == 0


def installed(workspace: Sequence[Path], state_dir: Path) -> Iterator[Candidate]:
    """Yield the bubblewrap programs of this machine, best first.

    Args:
        workspace: Folders that commands may write; a program found there, or below the current
            directory, is refused.
        state_dir: The folder for a copy of the bundled one, used if that is in the workspace.
    """
    foreign = (*workspace, current_folder())

    def is_foreign(real: Path) -> bool:
        return any(map(real.is_relative_to, foreign))

    seen: set[Path] = set()
    for path in _paths():
        real = real_path(path)
        if real in seen or not path.is_absolute() or not os.access(path, os.X_OK):
            continue
        seen.add(real)
        is_strange = path not in _SYSTEM and is_foreign(real)
        yield Candidate(path, "it lies in the workspace" if is_strange else "")
    own = bundled(is_foreign, state_dir)
    if own is not None and real_path(own.program) not in seen:
        yield own


def _paths() -> Iterator[Path]:
    yield from _SYSTEM
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        yield Path(folder, "bwrap")


def confinement(
    bubblewrap: Bubblewrap, rules: Rules, own_files: SandboxFiles, cwd: Path
) -> Confinement:
    """Return the parameters for starting a command under *rules*.

    Raises:
        OSError: This bubblewrap is too old, or does not run, or not now; or the rules are too many.
    """
    if bubblewrap.version < VERSION_MIN:
        raise OSError(f"{bubblewrap.program} does not run, or is older than 0.5")
    own_files.make_way(rules.shown)
    prefix = arguments(bubblewrap, rules, own_files, cwd=cwd)
    if len(prefix) > _ARGUMENTS_MAX:
        some = ", ".join(map(str, rules.hidden[-2:]))
        raise OSError(
            f"{len(rules.hidden):,} paths are to be hidden, such as {some}, which is more than"
            " bubblewrap takes: start in a folder with fewer files that look like keys"
        )
    return replace(outline(bubblewrap, own_files), prefix=prefix, rest=-1, shell=SHELL)


def outline(bubblewrap: Bubblewrap, own_files: SandboxFiles) -> Confinement:
    """Return the confinement of a command that is started before its rules are known.

    Without the arguments that bubblewrap waits for, its root is empty, and no command is found. Nor
    is one with a part of them, as if this program is killed while memory is too short to send all:
    the last makes the link with which the command begins, by a name that nobody knows.
    """
    temporary = "/var/tmp" if own_files.scratch else "/tmp"
    variables = temporary_variables(temporary, "/var/tmp" if own_files.is_apart else "")
    return Confinement(
        prefix=[str(bubblewrap.program), "--args", str(_ARGUMENTS_DESCRIPTOR), "--"],
        files=((_FILTER_DESCRIPTOR, str(own_files.filter)),),
        environment={**variables, "XDG_RUNTIME_DIR": temporary},
        nested=True,
        rest=_ARGUMENTS_DESCRIPTOR,
        shell=f"/run/agent-cli-{secrets.token_hex(8)}/sh",
    )


def arguments(
    bubblewrap: Bubblewrap, rules: Rules, own_files: SandboxFiles, *, cwd: Path
) -> list[str]:
    """Return the command line up to the command.

    Order matters: a later mount covers an earlier one. Raises OSError if it is not worth trying.
    """
    inside = [path for path in rules.hidden if is_in_one(path, rules.shown)]
    outside = [path for path in rules.hidden if not is_in_one(path, (*rules.shown, *REPLACED))]
    opened = sorted({*rules.opened_folders}.intersection((*inside, *outside)))
    inside, outside = ([each for each in x if each not in opened] for x in (inside, outside))
    shown = [path for path in rules.shown if not is_in_one(path, opened)]
    copies, outside = _covered(outside, own_files)
    masked = [*outside, *inside]
    are_many = len(masked) >= _LATE_FROM
    if is_late := are_many and bubblewrap.masks_late(own_files):
        outside = inside = []
    elif are_many and own_files.scratch:
        raise OSError(f"{len(masked):,} masks would take longer than the command")
    command = [
        str(bubblewrap.program),
        *_namespaces(bubblewrap, rules),
        *("--ro-bind", "/", "/", "--dev", "/dev", "--tmpfs", "/run"),
        # If we run as root, the kernel would let the command change settings in /proc/sys.
        *("--proc", "/proc", "--remount-ro", "/proc"),
        *_kept(rules),
        *_emptied(_INCLUDED_BY_SSH),
        *("--bind", str(own_files.temporary), "/tmp"),
        *("--bind", str(own_files.for_writing[-1]), "/var/tmp"),
        *copies,
        *_hidden(outside, own_files),
        *_shown(shown, rules),
        *(word for path in rules.read_only for word in ("--ro-bind", str(path), str(path))),
        *(word for path in opened for word in _replaced(path, rules, own_files)),
        *_hidden(inside, own_files),
        *(word for path in opened for word in ("--remount-ro", str(path))),
        # Not before: a root below it needs a folder there to be mounted on.
        *(("--remount-ro", "/tmp") if own_files.scratch else ()),
        *("--chdir", str(cwd)),
        *(("--seccomp", str(_FILTER_DESCRIPTOR)) if has_filter() else ()),
    ]
    return [*(_with_late_masks(masked, own_files, command) if is_late else command), "--"]


def _with_late_masks(
    paths: Sequence[Path], own_files: SandboxFiles, command: Sequence[str]
) -> list[str]:
    """Return the command line that runs bubblewrap's *command* and hides *paths* in its sandbox."""
    covers = map(real_path, (own_files.hiding_file, own_files.hiding_directory))
    words = late_masks.words([*map(str, covers)], [*map(str, paths)], command)
    return program(late_masks.__name__, *words)


def _namespaces(bubblewrap: Bubblewrap, rules: Rules) -> list[str]:
    return [
        "--unshare-user",
        *(["--disable-userns"] if bubblewrap.version >= _DISABLES_NESTING else []),
        *("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
        *([] if rules.network else ["--unshare-net"]),
        *("--new-session", "--die-with-parent", "--cap-drop", "ALL"),
    ]


def _kept(rules: Rules) -> Iterator[str]:
    for path in (*_KEPT_OF_RUN, *(_KEPT_WITH_NETWORK if rules.network else ())):
        if path.exists():
            yield from ("--ro-bind", str(path), str(path))


def _emptied(folder: Path) -> Sequence[str]:
    """Return the mount that empties a folder of another user: in here its files are nobody's."""
    if folder.is_symlink() or not folder.is_dir() or folder.stat().st_uid == os.geteuid():
        return ()
    return ("--tmpfs", str(folder), "--remount-ro", str(folder))


def _covered(paths: Sequence[Path], own_files: SandboxFiles) -> tuple[list[str], list[Path]]:
    """Return mounts that each hide most entries of a folder, and which *paths* these leave.

    There are none if anything is to be written.
    """
    mounts: list[str] = []
    covered = set[Path]()
    counts = Counter(path.parent for path in paths if own_files.scratch)
    for folder in sorted(each for each, count in counts.items() if count >= _STAND_IN_FROM):
        if any(path.is_relative_to(folder) for path in REPLACED):
            continue
        entries = {path for path in paths if path.parent == folder}
        if made := stand_in(folder, entries, own_files):
            covered |= entries
            mounts += ("--ro-bind", str(made.copy), str(folder))
            for path in made.kept:
                mounts += ("--ro-bind-try", str(path), str(path))
    return mounts, [path for path in paths if path not in covered]


def _hidden(paths: Sequence[Path], own_files: SandboxFiles) -> Iterator[str]:
    """Yield mounts of an unreadable file or folder: "permission denied" is the clearest error.

    Not /dev/null, which some programs (git add) would take for an empty file.
    """
    for path in paths:
        cover = own_files.hiding_directory if path.is_dir() else own_files.hiding_file
        yield from ("--ro-bind", str(cover), str(path))


def _shown(paths: Iterable[Path], rules: Rules) -> Iterator[str]:
    for path in paths:
        if not path.is_symlink():
            option = "--bind" if path in rules.writable else "--ro-bind"
            yield from (option, str(path), str(path))


def _replaced(folder: Path, rules: Rules, own_files: SandboxFiles) -> Iterator[str]:
    """Yield what puts a folder in the place of *folder* that holds the names in it, unreadable.

    Masks beside what is shown would hide no file that appears, and fail where one vanishes.
    """
    yield from ("--perms", "0311", "--tmpfs", str(folder))
    for path in beside(folder, rules.shown):
        if path.is_symlink():
            with suppress(OSError):
                yield from ("--symlink", str(path.readlink()), str(path))
        elif path.is_dir():
            yield from ("--perms", "0000", "--dir", str(path))
        else:
            yield from ("--ro-bind", str(own_files.hiding_file), str(path))
    yield from _shown((each for each in rules.shown if is_inside(each, folder)), rules)


@dataclass(frozen=True, slots=True)
class StandIn:
    """An unreadable copy of a folder, with its names alone, to be mounted over it.

    `kept` are the entries of the folder to be mounted onto the copy again.
    """

    folder: Path
    copy: Path
    kept: Sequence[Path]


def stand_in(folder: Path, hidden: Set[Path], own_files: SandboxFiles) -> StandIn | None:
    """Return a copy of *folder* that hides its entries *hidden* with fewer mounts than these.

    None if most entries stay visible, or if the copy cannot be made. Bubblewrap reads the table of
    all mounts for each one, so that 85 take 50 ms.
    """
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        links = {each.name: Path(each.path).readlink() for each in found if each.is_symlink()}
        others = [each for each in found if each.name not in links]
        kept = [path for each in others if (path := Path(each.path)) not in hidden]
        if len(kept) + 1 >= len(hidden):
            return None
        folders = [each.name for each in others if each.is_dir(follow_symlinks=False)]
        files = [each.name for each in others if each.name not in folders]
        mode = stat.S_IMODE(folder.stat().st_mode)
        key = repr((str(folder), mode, links, folders, files))
        every = own_files.folder.path / _STAND_INS
        copy = every / hashlib.sha256(key.encode(errors="surrogateescape")).hexdigest()
        if not copy.exists():
            every.mkdir(mode=0o700, exist_ok=True)
            if len([*every.iterdir()]) >= _STAND_INS_MAX:  # the folder changes all the time
                return None
            _make_copy(copy, mode, links, folders=folders, files=files)
        is_whole = len([*copy.iterdir()]) == len(found)
    except OSError:
        return None
    return StandIn(folder, copy, kept) if is_whole else None


def _make_copy(
    copy: Path,
    mode: int,
    links: Mapping[str, Path],
    *,
    folders: Iterable[str],
    files: Iterable[str],
) -> None:
    """Make *copy* with these entries, complete or not at all: other commands are being prepared."""
    made = Path(tempfile.mkdtemp(dir=copy.parent))
    try:
        for name, target in links.items():
            (made / name).symlink_to(target)
        for name in folders:
            (made / name).mkdir(mode=0o000)
        for name in files:
            (made / name).touch(mode=0o000)
        made.chmod(mode)
        made.rename(copy)
    except OSError:
        remove_tree(made)
        if not copy.exists():
            raise
