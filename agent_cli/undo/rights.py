"""Tell the commands that may gain rights, which a watched one cannot.

For an ordinary user the kernel stops only the calls of processes that gain no rights: `sudo` would
fail, in a script too. A sandbox forbids them to gain rights anyway.
"""

import os
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path


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


def _gains_none() -> bool:
    """Return whether this process, and so each command, can gain no rights."""
    try:
        return "\nNoNewPrivs:\t1\n" in Path("/proc/self/status").read_text(errors="replace")
    except OSError:
        return False
