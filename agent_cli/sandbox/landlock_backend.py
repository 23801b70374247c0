"""Enforce the rules with Landlock and a system call filter: the second choice.

Landlock cannot deny a file in a granted folder: `.env` files and git's configuration in the
workspace stay open to a command, and its changes there are undone afterwards. Unix sockets
are refused, and all others without a network: Landlock knows neither sockets with a path nor UDP.
"""

import socket
from collections.abc import Iterator
from pathlib import Path

from agent_cli.sandbox import landlock
from agent_cli.sandbox.confinement import Confinement
from agent_cli.sandbox.path_sets import outermost, unique
from agent_cli.sandbox.places import Places
from agent_cli.sandbox.policy import Rules
from agent_cli.sandbox.seccomp import filter_program
from agent_cli.system.launching import Restriction

_NETLINK = 16
_WITHOUT_MEMORY = ("null", "zero", "full", "random", "urandom")
_OF_OTHERS = tuple(map(Path, ("/dev", "/tmp", "/var/tmp", "/run")))
_DEVICES = (*_WITHOUT_MEMORY, "tty", "ptmx", "pts", "shm")


def is_usable() -> bool:
    """Return whether the kernel has Landlock, and the machine's system calls are known."""
    return landlock.abi() >= landlock.ABI_MIN and filter_program() is not None


def confinement(rules: Rules, places: Places) -> Confinement:
    """Return the parameters for starting a command under *rules*."""
    families = (socket.AF_INET, socket.AF_INET6, _NETLINK) if rules.network else ()
    temporary, is_read_only = places.scratch or places.temporary, places.scratch is not None
    devices = _WITHOUT_MEMORY if is_read_only else _DEVICES
    readable = _readable(Path("/"), frozenset(rules.hidden))
    if is_read_only:
        readable = _readable_without_others(rules, places)
    writable = (*rules.writable, temporary, *(Path("/dev", name) for name in devices))
    return Confinement(
        environment={"TMPDIR": str(temporary)},
        restriction=Restriction(
            module=landlock.__name__,
            readable=[str(path) for path in readable],
            writable=[str(path) for path in writable],
            network=rules.network,
            seccomp=(filter_program(families=families, read_only=is_read_only) or b"").hex(),
        ),
    )


def _readable_without_others(rules: Rules, places: Places) -> Iterator[Path]:
    """Yield the paths that a command may read without a person's approval.

    Not devices: to read the user's terminal takes the typed keys, and is enough to change its
    settings. Nor the temporary files of other programs.
    """
    yield from _readable(Path("/"), frozenset(outermost(unique((*rules.hidden, *_OF_OTHERS)))))
    for folder in (*rules.visible, places.temporary):
        if any(map(folder.is_relative_to, _OF_OTHERS)):
            yield from _readable(folder, frozenset(rules.hidden))


def _readable(directory: Path, hidden: frozenset[Path]) -> Iterator[Path]:
    """Yield *directory*, or its readable entries if it contains a hidden path."""
    above = {parent for path in hidden for parent in path.parents}
    if directory not in above:
        yield directory
        return
    try:
        entries = list(directory.iterdir())
    except OSError:
        return
    for path in entries:
        if path in above:
            yield from _readable(path, hidden)
        elif path not in hidden and not path.is_symlink():
            yield path
