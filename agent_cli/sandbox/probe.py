"""Tries a sandbox for real: does a command start in it, and is what must be refused refused?"""

import contextlib
import errno
import json
import os
import secrets
import socket
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agent_cli.sandbox.confinement import Confinement

_LIMIT_S = 10.0
_SHORTAGES = frozenset(
    {
        *(errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT),
        *(errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.ENOBUFS),
    }
)
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_REMEMBERED_MAX = 50

# Each line that works says so; "ran" comes last, so a script that was cut short proves nothing.
_SCRIPT = """
{ : > "$1"; } 2>/dev/null && echo "writing outside the workspace"
{ read -r _ < "$2"; } 2>/dev/null && echo "reading a secret"
{ exec 3<>"/dev/tcp/127.0.0.1/$3"; } 2>/dev/null && echo "connecting to this machine"
true && echo ran
"""


@dataclass(frozen=True, slots=True)
class Canaries:
    """What the probe must not get at: a path it may not write, and a secret."""

    outside: Path
    secret: Path


class CannotTryError(Exception):
    """Something is short at this moment: time, memory, processes. It says nothing of the sandbox.

    Other users can bring that about, so it must not be a reason to run without one.
    """


def fault(
    confine: Callable[[], Confinement], bash: Path, canaries: Canaries, *, network: bool
) -> str:
    """Return why the sandbox cannot be relied on; "" when it holds.

    Raises:
        CannotTryError: That could not be found out.
    """
    try:
        return _fault(confine, bash, canaries, network=network)
    except subprocess.TimeoutExpired as error:
        raise CannotTryError(f"it did not answer in {_LIMIT_S:g} s") from error
    except OSError as error:
        if error.errno in _SHORTAGES:
            raise CannotTryError(str(error)) from error
        return str(error)


def _fault(
    confine: Callable[[], Confinement], bash: Path, canaries: Canaries, *, network: bool
) -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        arguments = (str(canaries.outside), str(canaries.secret), str(server.getsockname()[1]))
        confinement = confine()
        try:
            run = _run(confinement, [str(bash), "-c", _SCRIPT, "probe", *arguments])
        finally:
            confinement.release()
    *allowed, last = run.stdout.split("\n")[:-1] or [""]
    if last != "ran":
        if any(os.strerror(number) in run.stderr for number in (errno.EAGAIN, errno.ENOMEM)):
            raise CannotTryError(run.stderr.strip()[:200])
        return (run.stderr.strip().partition("\n")[0] or f"exit code {run.returncode}")[:200]
    allowed = [what for what in allowed if not (network and what.startswith("connecting"))]
    if canaries.outside.exists():
        allowed.append("writing outside the workspace")
    return f"it does not prevent {allowed[0]}" if allowed else ""


def _run(confinement: Confinement, command: list[str]) -> "subprocess.CompletedProcess[str]":
    done: list[subprocess.CompletedProcess[str]] = []
    failed: list[OSError | subprocess.TimeoutExpired] = []

    def run() -> None:
        try:
            if confinement.enter is not None:
                confinement.enter()
            done.append(
                subprocess.run(
                    [*confinement.prefix, *command],
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    errors="replace",
                    timeout=_LIMIT_S,
                    check=False,
                    env={"PATH": os.defpath, **confinement.environment},
                    pass_fds=confinement.descriptors,
                    start_new_session=True,
                )
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            failed.append(error)

    # A thread of its own: what restricts it must restrict nobody else.
    thread = threading.Thread(target=run, name="sandbox-probe", daemon=True)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return done[0]


class Memory:
    """Which sandboxes were found to hold, in a file that counts until the next boot.

    Only good news: what failed may have been repaired, and is tried again at every start.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def knows(self, key: str) -> bool:
        """Whether the sandbox *key* was found to hold."""
        return key in self._read()

    def keep(self, key: str) -> None:
        """Remember *key*; without a place to write to, the next start probes again."""
        kept = [*self._read()[-_REMEMBERED_MAX:], key]
        new = self._path.with_name(f"{self._path.name}.{secrets.token_hex(4)}")
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump({"boot": _boot(), "hold": kept}, file)
            new.replace(self._path)

    def _read(self) -> list[str]:
        try:
            stored = json.loads(self._path.read_bytes())
            if stored["boot"] != _boot() or not _boot():
                return []
            return [str(key) for key in stored["hold"]]
        except (OSError, ValueError, KeyError, TypeError):
            return []  # A damaged memory is none.


def _boot() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""
