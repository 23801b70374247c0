"""Try whether the changes of commands can be recorded on this machine."""

import os
import tempfile
from functools import cache
from pathlib import Path

from agent_cli.system.launching import Launcher, Order, Watched
from agent_cli.undo import watch
from agent_cli.undo.listener import why_missing

_STATUS = Path("/proc/self/status")
_NO_FILTER = "\nSeccomp:\t0\n"
_LIMIT_S = 10.0
_RECEIVED_BYTES = 65_536


def why_unstopped() -> str:
    """Return why commands run unwatched here, or ""; tries it only in doubt, once, and blocks."""
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
                    module=watch.__name__,
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
