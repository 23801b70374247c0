"""Keep the store in order: delete sessions with all their files, and verify what is kept.

Strings are shared (blobs.py). One that a deleted session names goes as soon as no other session
names it; one that no session names, which a killed program left, goes when it is an hour old.
"""

import fcntl
import re
import shutil
import time
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from agent_cli.contracts.errors import SessionError
from agent_cli.session_store.blobs import Blobs, names_in
from agent_cli.session_store.history import BLOBS_DIR, blobs_folder, is_unused, read_mended
from agent_cli.session_store.log_file import LogLine, held, scan
from agent_cli.session_store.store import SessionStore
from agent_cli.system import paths
from agent_cli.system.paths import stamp
from agent_cli.system.private_files import target_name
from agent_cli.system.records import dataclass

_KEPT_S: Final = 3_600
_UNUSED_KEPT_S: Final = 30 * 24 * 3_600
_BLOB: Final = re.compile(r"[0-9a-f]{64}")


def delete_sessions(store: SessionStore, ids: Iterable[str]) -> int:
    """Delete sessions and their subagents' sessions; none if any is open or unknown.

    Args:
        store: The store of all sessions.
        ids: Ids, or prefixes of ids.

    Returns:
        The number of *ids*, each session counted once.

    Raises:
        SessionNotFound: There is no such session; nothing is deleted.
        SessionError: One is open in a program, and nothing is deleted; or something cannot be
            removed, and the message says what.
    """
    files = list(dict.fromkeys(store.find(id) for id in ids))
    folders: dict[Path, set[str]] = {}
    try:
        for path in files:
            _require_closed(store, path)
        for path in files:
            if path.exists():  # else it went with the session that started it
                folders.setdefault(path.parent, set()).update(_remove(store, path))
    except OSError as error:
        raise SessionError(f"{error.filename} cannot be removed: {error.strerror}") from error
    finally:
        for folder, named in folders.items():
            _clean(folder, named)
    return len(files)


def delete_unused(store: SessionStore, id: str) -> None:
    """Delete a session that was made for nothing, as well as possible; this may take a second."""
    with suppress(SessionError):
        delete_sessions(store, [id])


def remove_unused(store: SessionStore) -> None:
    """Remove the sessions in which nothing was said for a month after they were opened."""
    for path in store.files():
        with suppress(OSError, SessionError):  # open, or deleted meanwhile
            if time.time() - path.stat().st_mtime > _UNUSED_KEPT_S and is_unused(path):
                with held(path):
                    path.unlink()


def _require_closed(store: SessionStore, path: Path) -> None:
    for each in store.tree(path):
        with held(each):  # one at a time: there may be more than a process can open
            pass


def _remove(store: SessionStore, path: Path) -> frozenset[str]:
    """Remove a session and return the names of its long strings.

    Its own file goes last: until then it can be named to be deleted again.
    """
    with held(path):
        named = names_in(path)
        _itself, *of_agents = store.tree(path)
        for each in reversed(of_agents):
            with held(each):
                _remove_one(store, each)
        _remove_one(store, path)
    return named


def _remove_one(store: SessionStore, path: Path) -> None:
    for folder in _folders_of(store, path.stem):
        if folder.is_symlink():
            folder.unlink()
        while folder.is_dir():
            with suppress(FileNotFoundError):  # another program forgets old changes meanwhile
                shutil.rmtree(folder)
    path.unlink()


def _folders_of(store: SessionStore, id: str) -> Iterable[Path]:
    """Return the folders kept for the session *id*: for undo, for servers, and for subagents."""
    return paths.changes_dir() / id, paths.server_files_dir(id), store.of_agents(id).folder


def _clean(folder: Path, deleted: AbstractSet[str]) -> None:
    try:
        _sweep(folder, deleted)
    except OSError as error:
        raise SessionError(
            f"{error.filename}: {error.strerror}; long outputs of deleted sessions may still be in"
            f" {folder / BLOBS_DIR}"
        ) from error


def _sweep(folder: Path, deleted: AbstractSet[str]) -> None:
    """Remove the long strings in *folder* that no session in it names."""
    stored = folder / BLOBS_DIR
    if not stored.is_dir():
        return
    # Reading all sessions may take long, and programs that write wait for the lock: read most of it
    # before, and under the lock only what was written meanwhile.
    store = SessionStore(folder)
    known = {path: (stamp(path), _named(path)) for path in store.files()}
    with Blobs(stored).locked(fcntl.LOCK_EX):
        named: set[str] = set()
        for path in store.files():
            before, names = known.get(path, (None, frozenset[str]()))
            named |= names if before == stamp(path) else _named(path)
        for file in stored.iterdir():
            found = _BLOB.fullmatch(target_name(file.name))
            if found and file.name not in named and (file.name in deleted or _is_old(file)):
                file.unlink()


def _named(path: Path) -> frozenset[str]:
    try:
        return names_in(path)
    except FileNotFoundError:  # another program is deleting it
        return frozenset()


def _is_old(file: Path) -> bool:
    return time.time() - file.stat().st_mtime > _KEPT_S


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault in a line. A torn last line is not damage: resuming removes it.

    `remedy` says how to go on with what is before the line, if reading stops there.
    """

    line: int
    problem: str
    damage: bool = True
    remedy: str = ""

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
    found = sorted(_with_damage(found, path), key=_line)
    if data and not data.endswith(b"\n"):
        torn = "is torn: the program ended while it wrote it; going on takes it away"
        found.append(Finding(len(lines) + 1, torn, damage=False))
    return found


def _with_damage(found: Sequence[Finding], path: Path) -> Sequence[Finding]:
    """Return *found* with the line at which every other command stops reading, and its remedy."""
    try:
        damage = read_mended(path).damage
    except SessionError as error:
        return [*found, Finding(1, f"cannot be read: {error}", damage=False)]
    if damage is None:
        return found
    there = [each for each in found if each.line == damage.number]
    others = [each for each in found if each.line != damage.number]
    first, *more = there or [Finding(damage.number, damage.problem)]
    return [*others, replace(first, remedy=damage.remedy(path.stem)), *more]


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
