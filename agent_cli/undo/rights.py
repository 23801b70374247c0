"""Tell the commands that need more rights than their caller has.

The kernel stops the calls of a command without a sandbox only if the command can gain no rights:
`sudo` would fail in it.
"""

import re
from typing import Final

_PROGRAMS: Final = (
    *("sudo", "sudoedit", "doas", "su", "pkexec", "run0", "runuser", "gosu", "newgrp", "sg"),
    *("mount", "umount", "fusermount", "fusermount3", "newuidmap", "newgidmap", "podman"),
    *("buildah", "passwd", "chsh", "chfn", "crontab", "at", "ping", "bwrap", "snap"),
)
_NAMED: Final = re.compile(rf"(?<![\w./-])(?:[\w./-]*/)?(?:{'|'.join(_PROGRAMS)})(?![\w.-])")


def raises_rights(command: str) -> bool:
    """Return whether *command* names a program that gains rights; one in a script is not seen."""
    return _NAMED.search(command) is not None
