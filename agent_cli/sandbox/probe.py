"""Test a sandbox with a real command: it must start, and forbidden access must fail."""

import contextlib
import errno
import hashlib
import json
import os
import secrets
import select
import socket
import time
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from agent_cli.sandbox.bwrap import REPLACED
from agent_cli.sandbox.confinement import Confinement
from agent_cli.sandbox.report import is_shortage
from agent_cli.system.launching import KeeperLink, Launcher, Order
from agent_cli.system.paths import real_path
from agent_cli.system.private_files import write_private
from agent_cli.system.records import dataclass

if TYPE_CHECKING:
    from agent_cli.sandbox.backends import Backend
    from agent_cli.sandbox.confinement import Rules
    from agent_cli.sandbox.policy import SandboxPolicy

_LIMIT_S = 10.0
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_OUTPUT_BYTES = 65_536
_SHOWN_CHARS = 200
_REMEMBERED_MAX = 50
_TRIED_MAX = 100
# Raise this number when sandboxes are built differently, so that stored test results expire.
_EDITION = 3

# Each access that succeeds prints a line; "ran" comes last, so a script cut short is detected.
_SCRIPT = """
{ : > "$1"; } 2>/dev/null && echo "writing outside the workspace"
{ read -r _ < "$2"; } 2>/dev/null && echo "reading a secret"
{ exec 3<>"/dev/tcp/127.0.0.1/$3"; } 2>/dev/null && echo "connecting to this machine"
true && echo ran
"""


@dataclass(frozen=True, slots=True)
class Canaries:
    """The targets that the probe must not reach: a path to write, and a secret to read."""

    outside: Path
    secret: Path


@contextlib.contextmanager
def laid_out(state_dir: Path, policy: "SandboxPolicy") -> Generator[Canaries]:
    """Create a secret in the state folder, and choose a path that must not be writable."""
    # It stays: a program that ends while the probe runs would leave one for each start.
    secret = state_dir / "sandbox-probe"
    name = f"{secret.name}-{secrets.token_hex(8)}"
    # The workspace may be the home directory or even "/", where writing is allowed; and
    # temporary folders are replaced in the sandbox.
    folders = (
        folder
        for folder in (state_dir.parent, policy.home.parent)
        if not policy.owns(folder) and not any(map(folder.is_relative_to, REPLACED))
    )
    canaries = Canaries(next(folders, Path("/")) / name, secret)
    write_private(secret, b"secret\n")
    try:
        yield canaries
    finally:
        canaries.outside.unlink(missing_ok=True)


def tried_rules(rules: "Rules", state_dir: Path) -> "Rules":
    """Return *rules* to test a sandbox with: of many paths only some are hidden, ours among them.

    What the workspace holds says nothing about the machine; thousands would take half a minute.
    """
    own = real_path(state_dir)
    hidden = [
        path for at, path in enumerate(rules.hidden) if at < _TRIED_MAX or own.is_relative_to(path)
    ]
    return replace(rules, hidden=tuple(hidden))


class CannotTryError(Exception):
    """A lack of time, memory or processes prevented the test; the sandbox may be fine.

    Other users can cause such a lack, so it must not be a reason to run without a sandbox.
    """


def fault(
    confine: Callable[[], Confinement], bash: Path, canaries: Canaries, *, network: bool
) -> str:
    """Return why the sandbox does not protect; "" if it does.

    Raises:
        CannotTryError: The test could not be run.
    """
    try:
        return _fault(confine, bash, canaries, network=network)
    except TimeoutError as error:
        raise CannotTryError(f"it did not answer in {_LIMIT_S:g} s") from error
    except OSError as error:
        if is_shortage(error):
            raise CannotTryError(str(error)) from error
        return str(error)


def _fault(
    confine: Callable[[], Confinement], bash: Path, canaries: Canaries, *, network: bool
) -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        arguments = (str(canaries.outside), str(canaries.secret), str(server.getsockname()[1]))
        command = [str(bash), "-c", _SCRIPT, "probe", *arguments]
        output = _run(confine(), command)
        if not _ran(output):  # a path to hide may have vanished, such as another program's socket
            output = _run(confine(), command)
    *allowed, _last = output.split("\n")[:-1] or [""]
    if not _ran(output):
        if any(os.strerror(number) in output for number in (errno.EAGAIN, errno.ENOMEM)):
            raise CannotTryError(output.strip()[:_SHOWN_CHARS])
        return (output.strip().partition("\n")[0] or "it ended without output")[:_SHOWN_CHARS]
    allowed = [what for what in allowed if not (network and what.startswith("connecting"))]
    if canaries.outside.exists():
        allowed.append("writing outside the workspace")
    return f"it does not prevent {allowed[0]}" if allowed else ""


def _ran(output: str) -> bool:
    return output.split("\n")[-2:-1] == ["ran"]


def _run(confinement: Confinement, command: list[str]) -> str:
    """Return the output of *command*, started like any command of a session."""
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
            confinement.release()
    finally:
        launcher.close()


def _read_all(reading: int, link: KeeperLink) -> str:
    """Return all data from *reading*, or the reason why the command did not start."""
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


def key_of(backend: "Backend", policy: "SandboxPolicy") -> str:
    """Return the name of the test of *backend* under *policy*."""
    parts = [str(_EDITION), backend.state, str(os.getuid()), str(policy.network)]
    parts += map(str, policy.roots)
    if backend.program is not None:
        state = backend.program.stat()
        parts += [str(backend.program), str(state.st_mtime_ns), str(state.st_size)]
    return hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()


class Memory:
    """Stores which sandboxes passed the test, in a file that is valid until the next boot.

    Failures are not stored: the cause may have been fixed, so the next start tests again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def knows(self, key: str) -> bool:
        """Return whether the sandbox *key* passed the test."""
        return key in self._read()

    def keep(self, key: str) -> None:
        """Store *key*; if that fails, the next start probes again."""
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
            return []  # A damaged file counts as empty.


def _boot() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""
