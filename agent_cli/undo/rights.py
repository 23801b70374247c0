"""Tell the commands that cannot be watched, or that may gain rights, which a watched one cannot.

For an ordinary user the kernel stops only the calls of processes that gain no rights: `sudo` would
fail, in a script too. A sandbox forbids them to gain rights anyway.
"""

import os
import shutil
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

_ACTIONS = Path("/proc/sys/kernel/seccomp/actions_avail")


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

    For the first lines of a session: `listener.why_missing` imports more.
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
        return "\nNoNewPrivs:\t1\n" in Path("/proc/self/status").read_text(errors="replace")
    except OSError:
        return False
