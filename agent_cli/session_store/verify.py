"""Verify a session's file and report each fault with its line."""

from pathlib import Path

from agent_cli.contracts.errors import SessionError
from agent_cli.session_store.blobs import Blobs
from agent_cli.session_store.codec import Codec
from agent_cli.session_store.history import blobs_folder, read_mended
from agent_cli.session_store.log_file import LogLine, scan
from agent_cli.system.records import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault in a line. A torn last line is not damage: resuming removes it."""

    line: int
    problem: str
    damage: bool = True

    def __str__(self) -> str:
        return f"line {self.line} {self.problem}"


def verify(path: Path) -> list[Finding]:
    """Return the faults of the session at *path*, in order; [] when it is intact.

    Raises:
        SessionError: It cannot be read.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SessionError(f"{path}: {error.strerror}") from error
    blobs = Blobs(blobs_folder(path))
    lines = list(scan(data))
    found = [finding for line in lines for finding in _check(line, blobs)]
    found = sorted([*found, *_unreadable(path, {each.line for each in found})], key=_line)
    if data and not data.endswith(b"\n"):
        torn = "is torn: the program ended while it wrote it; going on takes it away"
        found.append(Finding(len(lines) + 1, torn, damage=False))
    return found


def _unreadable(path: Path, known: set[int]) -> list[Finding]:
    """Return the line at which every other command stops reading, unless it is *known*."""
    try:
        damage = read_mended(path, Codec()).damage
    except SessionError as error:
        return [Finding(1, f"cannot be read: {error}", damage=False)]
    if damage is None or damage.number in known:
        return []
    return [Finding(damage.number, damage.problem)]


def _line(finding: Finding) -> int:
    return finding.line


def _check(line: LogLine, blobs: Blobs) -> list[Finding]:
    if line.problem:
        return [Finding(line.number, line.problem)]
    if line.number == 1 and line.record.get("kind") != "session":
        return [Finding(1, "does not say which session this is")]
    return [
        Finding(line.number, f"needs blobs/{name}, which is missing or damaged")
        for name in blobs.missing(line.record)
    ]
