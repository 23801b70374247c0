"""The sandbox backends that a machine may have. Imported by the thread that probes them.

Landlock, the second choice, cannot deny a file in a granted folder: `.env` files and git's
configuration in the workspace stay open to a command, and its changes there are undone afterwards.
Unix sockets are refused, and all others without a network: Landlock knows neither sockets with a
path nor UDP. The profile for macOS's sandbox-exec is untested, written from documentation only; it
has to pass the same probe as the others, so it is not used where it does not work.
"""

import json
import socket
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from agent_cli.sandbox import bwrap, landlock
from agent_cli.sandbox.bwrap import Bubblewrap
from agent_cli.sandbox.confinement import (
    Candidate,
    Confinement,
    Rules,
    SandboxFiles,
    temporary_variables,
)
from agent_cli.sandbox.path_sets import holds, is_in_one, is_inside, outermost, unique
from agent_cli.sandbox.report import State
from agent_cli.sandbox.seccomp import filter_program
from agent_cli.system.launching import Restriction
from agent_cli.system.records import dataclass

_NETLINK = 16
_WITHOUT_MEMORY = ("null", "zero", "full", "random", "urandom")
_OF_OTHERS = tuple(map(Path, ("/dev", "/tmp", "/var/tmp", "/run")))
_WRITABLE_DEVICES = (*_WITHOUT_MEMORY, "tty", "ptmx", "pts", "shm")

SANDBOX_EXEC = Path("/usr/bin/sandbox-exec")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/tty", "/dev/ptmx", "/dev/stdout", "/dev/stderr")


@dataclass(frozen=True, slots=True)
class Backend:
    """One sandbox backend.

    Attributes:
        confine: Takes the rules, the sandbox's own files and the working directory; returns the
            confinement.
        outline: Returns that of a command that is started before its rules are known; None: it
            cannot be.
        hides_many: Whether it hides a thousand files at little cost; None: it does not.
        program: The program it needs, if any.
        guards_protected: Whether it prevents changes of protected files, so that none need be
            restored.
    """

    state: State
    confine: Callable[[Rules, SandboxFiles, Path], Confinement]
    program: Path | None = None
    guards_protected: bool = True
    outline: Callable[[SandboxFiles], Confinement] | None = None
    hides_many: Callable[[SandboxFiles], bool] | None = None


def backends(workspace: Sequence[Path], state_dir: Path) -> Iterator[Backend | Candidate]:
    """Yield the sandboxes that this machine may have, best first; none is tried yet.

    A `Candidate` is a program that must not be run; its refusal says why.
    """
    if SANDBOX_EXEC.exists():
        yield Backend(
            "sandbox-exec",
            lambda rules, own_files, _cwd: seatbelt_confinement(rules, own_files),
            SANDBOX_EXEC,
        )
    for found in bwrap.installed(workspace, state_dir):
        if found.refusal:
            yield found
        else:
            program = Bubblewrap(found.program)
            build, begin = partial(bwrap.confinement, program), partial(bwrap.outline, program)
            many = program.masks_late
            yield Backend("bwrap", build, found.program, outline=begin, hides_many=many)
    if landlock_is_usable():
        yield Backend(
            "landlock",
            lambda rules, own_files, _cwd: landlock_confinement(rules, own_files),
            guards_protected=False,
        )


def landlock_is_usable() -> bool:
    """Return whether the kernel has Landlock, and the machine's system calls are known."""
    return landlock.abi() >= landlock.ABI_MIN and filter_program() is not None


def landlock_confinement(rules: Rules, own_files: SandboxFiles) -> Confinement:
    """Return the parameters for starting a command under *rules*, which its process applies."""
    families = (socket.AF_INET, socket.AF_INET6, _NETLINK) if rules.network else ()
    is_read_only = own_files.scratch is not None
    devices = _WITHOUT_MEMORY if is_read_only else _WRITABLE_DEVICES
    hidden = frozenset(rules.hidden)
    others = (
        _readable_without_others(rules, own_files) if is_read_only else _readable(Path("/"), hidden)
    )
    # A right to the whole of /dev/shm would be one to all that is above a workspace there.
    kept = (*rules.hidden, *rules.visible, *rules.writable)
    shared = (path for name in devices if not holds(path := Path("/dev", name), kept))
    writable = (*rules.writable, *own_files.for_writing, *shared)
    return Confinement(
        environment=temporary_variables(*own_files.for_writing),
        restriction=Restriction(
            module=landlock.__name__,
            readable=[str(path) for path in (*others, *_opened(rules))],
            writable=[str(path) for path in writable],
            network=rules.network,
            seccomp=(filter_program(families=families, read_only=is_read_only) or b"").hex(),
        ),
    )


def _readable_without_others(rules: Rules, own_files: SandboxFiles) -> Iterator[Path]:
    """Yield the paths that a command may read without a person's approval.

    Not devices: to read the user's terminal takes the typed keys, and is enough to change its
    settings. Nor the temporary files of other programs.
    """
    yield from _readable(Path("/"), frozenset(outermost(unique((*rules.hidden, *_OF_OTHERS)))))
    for folder in (*rules.visible, own_files.temporary):
        if any(map(folder.is_relative_to, _OF_OTHERS)):
            yield from _readable(folder, frozenset(rules.hidden))


def _opened(rules: Rules) -> Iterator[Path]:
    """Yield the readable paths inside hidden folders."""
    opened = rules.opened_folders
    for folder in rules.visible:
        if is_in_one(folder, opened) and not folder.is_symlink():
            yield from _readable(folder, frozenset(rules.hidden))


def _readable(directory: Path, hidden: frozenset[Path]) -> Iterator[Path]:
    """Yield *directory*, or its readable entries if it contains a hidden path."""
    above = {parent for path in hidden for parent in path.parents}
    waiting = [directory]
    while waiting:
        path = waiting.pop()
        if path not in above:
            yield path
            continue
        try:
            entries = list(path.iterdir())
        except OSError:
            continue
        waiting += (each for each in entries if not (each in hidden or each.is_symlink()))


def seatbelt_confinement(rules: Rules, own_files: SandboxFiles) -> Confinement:
    """Return the parameters for starting a command under *rules*, in macOS's sandbox-exec."""
    return Confinement(
        prefix=(str(SANDBOX_EXEC), "-p", "\n".join(seatbelt_profile(rules, own_files))),
        environment=temporary_variables(*own_files.for_writing),
    )


def seatbelt_profile(rules: Rules, own_files: SandboxFiles) -> Iterator[str]:
    """Yield the lines of the profile; the last line about a path wins."""
    yield "(version 1)"
    yield "(deny default)"
    yield "(allow process-exec process-fork signal sysctl-read mach-lookup file-read*)"
    yield "(allow file-ioctl pseudo-tty)"
    for name in _DEVICES:
        yield f"(allow file-write* (literal {json.dumps(name)}))"
    for path in (*rules.writable, *own_files.for_writing):
        yield f"(allow file-write* (subpath {_quoted(path)}))"
    for path in (*rules.read_only, *rules.missing):
        yield f"(deny file-write* (subpath {_quoted(path)}))"
    opened = rules.opened_folders
    for path in sorted(opened):
        yield f"(deny file-read* file-write* (subpath {_quoted(path)}))"
        for what, folders in (
            ("file-read*", rules.visible),
            ("file-read* file-write*", rules.writable),
        ):
            for folder in folders:
                if is_inside(folder, path):
                    yield f"(allow {what} (subpath {_quoted(folder)}))"
    for path in (each for each in rules.hidden if each not in opened):
        yield f"(deny file-read* file-write* (subpath {_quoted(path)}))"
    if rules.network:
        yield "(allow network*)"
    else:
        yield '(allow network* (local ip "localhost:*"))'


def _quoted(path: Path) -> str:
    return json.dumps(str(path), ensure_ascii=False)
