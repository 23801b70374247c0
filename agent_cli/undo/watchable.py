"""Tell whether commands can be watched: on this machine, and without taking rights from them.

For an ordinary user the kernel stops only the calls of processes that gain no rights: `sudo` would
fail, in a script too. A sandbox forbids them to gain rights anyway.
"""

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from agent_cli.system.launching import Launcher, Order, Watched

WATCH = "agent_cli.undo.watch"
"""The module that watches a command, for its keeper."""

_ACTIONS = Path("/proc/sys/kernel/seccomp/actions_avail")
_STATUS = Path("/proc/self/status")
_NO_FILTER = "\nSeccomp:\t0\n"
_LIMIT_S = 10.0
_RECEIVED_BYTES = 65_536


def may_gain_rights(sandbox: Sequence[str], *, restricts_itself: bool) -> bool:
    """Return whether a watch would take rights from a command.

    Args:
        sandbox: The program that builds its sandbox, and its arguments; empty for none.
        restricts_itself: Whether its process gives up gaining rights before it starts.
    """
    if os.geteuid() == 0 or restricts_itself or _gains_none():
        return False
    if not sandbox:
        return True
    try:  # bubblewrap is a set-user-ID program where user namespaces are forbidden
        mode = Path(shutil.which(sandbox[0]) or sandbox[0]).stat().st_mode
    except OSError:
        return True
    return bool(mode & (stat.S_ISUID | stat.S_ISGID))


def why_never_watched() -> str:
    """Return why no command can be watched here, or ""; a container may forbid it all the same.

    For the first lines of a session: it only reads a file.
    """
    if sys.platform != "linux":
        return "only Linux can stop the changes of commands"
    try:
        actions = _ACTIONS.read_text(encoding="ascii")
    except OSError:  # not in all containers: then the first command shows it
        return ""
    return "" if "user_notif" in actions.split() else "the kernel is older than 5.0"


def _gains_none() -> bool:
    """Return whether this process, and so each command, can gain no rights."""
    try:
        return "\nNoNewPrivs:\t1\n" in _STATUS.read_text(errors="replace")
    except OSError:
        return False


def why_unstopped() -> str:
    """Return why commands run unwatched here, or ""; tries it only in doubt, once, and blocks."""
    from agent_cli.undo.stopped_calls import why_missing  # with a command

    if reason := why_missing():
        return reason
    try:  # without a filter above us, nothing else can forbid it
        is_free = _NO_FILTER in _STATUS.read_text(errors="replace")
    except OSError:
        is_free = False
    return "" if is_free else _tried()


@cache
def _tried() -> str:
    return why_unwatched()


def why_unwatched() -> str:
    """Return why commands run unwatched here, or ""; runs one that does nothing, and blocks."""
    from agent_cli.undo.stopped_calls import why_missing  # with a command

    if reason := why_missing():
        return reason
    launcher = Launcher()
    try:
        with tempfile.TemporaryDirectory() as folder:
            order = Order(
                arguments=["/bin/true"],
                cwd="/",
                environment={},
                watched=Watched(
                    module=WATCH,
                    folder=folder,
                    roots=[folder],
                    copy_bytes_max=0,
                    header={"command": "true"},
                ),
            )
            link, output = launcher.launch(order)
            os.close(output)
            link.socket.settimeout(_LIMIT_S)
            while not link.messages and not link.is_closed:
                link.take(link.socket.recv(_RECEIVED_BYTES))
            link.end(_LIMIT_S)
    except OSError as error:
        return f"it could not be tried: {error}"
    finally:
        launcher.close()
    return str((link.found("pid") or {"unwatched": "its keeper ended"})["unwatched"])
