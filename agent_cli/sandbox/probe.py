"""Tries a sandbox for real: does a command start in it, and is what must be refused refused?"""

import contextlib
import errno
import json
import os
import secrets
import select
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agent_cli.sandbox.confinement import Confinement
from agent_cli.system.launching import KeeperLink, Launcher, Order

_LIMIT_S = 10.0
_SHORTAGES = frozenset(
    {
        *(errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT),
        *(errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.ENOBUFS),
    }
)
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_OUTPUT_BYTES = 65_536
_SHOWN_CHARS = 200
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
    except TimeoutError as error:
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
        output = _run(confine(), [str(bash), "-c", _SCRIPT, "probe", *arguments])
    *allowed, last = output.split("\n")[:-1] or [""]
    if last != "ran":
        if any(os.strerror(number) in output for number in (errno.EAGAIN, errno.ENOMEM)):
            raise CannotTryError(output.strip()[:_SHOWN_CHARS])
        return (output.strip().partition("\n")[0] or "it ended without a word")[:_SHOWN_CHARS]
    allowed = [what for what in allowed if not (network and what.startswith("connecting"))]
    if canaries.outside.exists():
        allowed.append("writing outside the workspace")
    return f"it does not prevent {allowed[0]}" if allowed else ""


def _run(confinement: Confinement, command: list[str]) -> str:
    """Return what *command* prints, started as commands are."""
    launcher = Launcher()
    try:
        link, reading = launcher.launch(
            Order(
                arguments=[*confinement.prefix, *command],
                cwd="/",
                environment={"PATH": os.defpath, **confinement.environment},
                files=confinement.files,
                restriction=confinement.restriction,
                nested=confinement.nested,
            )
        )
        try:
            return _read_all(reading, link)
        finally:
            link.end(_LIMIT_S)
            confinement.release(())
    finally:
        launcher.close()


def _read_all(reading: int, link: KeeperLink) -> str:
    """Return all that comes from *reading*, or why nothing does."""
    deadline = time.monotonic() + _LIMIT_S
    received = b""
    with open(reading, "rb", buffering=0) as output:
        while True:
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not select.select([output], [], [], left_s)[0]:
                raise TimeoutError
            piece = output.read(_OUTPUT_BYTES)
            if not piece:
                break
            received += piece
    link.take(link.socket.recv(_OUTPUT_BYTES))
    failed = link.found("failed")
    return str(failed["failed"]) if failed else received.decode(errors="replace")


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
