"""Earlier versions of files, of all sessions: find them, compare them with the current files."""

import contextlib
import filecmp
import hashlib
import os
import shutil
import stat
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Final

from agent_cli.contracts.file_changes import Difference
from agent_cli.system import trees
from agent_cli.system.fixed_paths import directory_at
from agent_cli.system.paths import private_dir
from agent_cli.system.private_files import write_private
from agent_cli.system.records import dataclass
from agent_cli.undo.kept_files import drop_images
from agent_cli.undo.logs import CommandLog, is_held, is_running
from agent_cli.undo.records import LOG, State
from agent_cli.undo.reversal import put_copy
from agent_cli_tools.diffs import diff
from agent_cli_tools.snapshots.changes import Change, ChangeSpan, spans
from agent_cli_tools.snapshots.commands import (
    OriginalFile,
    changed_files,
    conflicts,
    edits_of,
    origins,
)
from agent_cli_tools.snapshots.contents import ContentStore, content_of, digest_of, mode_of
from agent_cli_tools.snapshots.journal import CHANGES, Journal
from agent_cli_tools.textio import decode, looks_binary

_REPLACED: Final = "replaced"
_DAY_S: Final = 86_400
_ID_CHARS: Final = 8
# Backup programs leave such a folder out. Source: https://bford.info/cachedir
_TAG: Final = "CACHEDIR.TAG"
_TAG_TEXT: Final = b"Signature: 8a477f597d28d172789f06886806bc55\n# agent-cli: for /undo\n"


@dataclass(frozen=True, slots=True)
class KeptVersion:
    """A file as it was before a tool or a command changed it.

    Attributes:
        kept: The file with its content.
        fate: What became of it: the command, or the tools.
        at_ns: When, in nanoseconds of the clock on the wall.
        state: Its state; None if only its permission bits, `mode`, are known.
    """

    path: Path
    kept: Path
    session: str
    fate: str
    at_ns: int
    bytes: int
    state: State | None = None
    mode: int | None = None
    attributes: dict[str, str] | None = None

    @property
    def id(self) -> str:
        """A short name, the same as long as it is kept."""
        named = os.fsencode(self.kept) + b"\0" + os.fsencode(self.path)
        return hashlib.sha256(named).hexdigest()[:_ID_CHARS]

    def differs(self) -> bool:
        """Return whether the file is another one now."""
        try:
            if self.kept.is_symlink() or self.path.is_symlink():
                return self.kept.readlink() != self.path.readlink()
            return not filecmp.cmp(self.kept, self.path, shallow=False)
        except OSError:
            return True


def kept_versions(store: Path, below: Path) -> list[KeptVersion]:
    """Return the versions that are kept of *below*, or of files in it, the newest first.

    Raises:
        OSError: A record cannot be read.
    """
    found: list[KeptVersion] = []
    for path in store.glob(f"*/{CHANGES}"):
        journal = Journal(path.parent)
        journal.read()
        for run in journal.runs:
            for change in run.changes:
                kept = journal.contents.folder / (change.before or "")
                if change.before and (size := _size(kept)) is not None:
                    version = KeptVersion(
                        *(change.path, kept, path.parent.name, "edited", change.at_ns, size),
                        mode=change.mode,
                    )
                    found.append(version)
            for log in journal.logs_of(run):
                found += _of_command(log, path.parent.name)
    inside = (each for each in found if each.path == below or below in each.path.parents)
    return sorted(inside, key=lambda each: each.at_ns, reverse=True)


def changed_by(
    paths: Collection[str], store: Path, *, session: str, with_own: bool = False
) -> dict[str, str]:
    """Return who changed each of *paths* last: another session, and by which command.

    An edit counts only if all changes after it are on record: what holds another content since was
    changed by an unknown hand.

    Args:
        paths: Real paths; those that no session is known to have changed are left out.
        store: The folder with the records of all sessions.
        session: The id of the session that asks.
        with_own: Whether its own changes count, which other agents of it may have made.

    Raises:
        OSError: A record cannot be read.
    """
    found: dict[str, list[_Recorded]] = {}
    # What was last written before a file changed knows nothing of that.
    since_s = min((at_s for path in paths if (at_s := _changed_s(path))), default=0.0)

    def note(path: Path, recorded: _Recorded) -> None:
        if str(path) in paths and recorded.at_ns:
            found.setdefault(str(path), []).append(recorded)

    for record in store.glob(f"*/{CHANGES}"):
        id = record.parent.name
        author = (
            "another agent or command of this session" if id == session else f"session {id[:8]}"
        )
        counts = with_own or id != session
        journal = Journal(record.parent)
        journal.read()
        for run in journal.runs:
            for change in run.changes:
                edited = f"{author} edited it" if counts else ""
                note(change.path, _Recorded(change.at_ns, edited, change))
            for log in journal.logs_of(run, since_s=since_s):
                for path in changed_files(log):
                    ran = f"{author} ran `{log.command}`" if counts else ""
                    note(path, _Recorded(log.ended_ns or log.began_ns, ran))
    named = {path: _last_author(path, changes) for path, changes in found.items()}
    return {path: author for path, author in named.items() if author}


@dataclass(frozen=True, slots=True)
class _Recorded:
    """A recorded change of one file; the `author` is "" for the session that asks."""

    at_ns: int
    author: str
    edit: Change | None = None


def _last_author(path: str, changes: Sequence[_Recorded]) -> str:
    """Return who made the last of *changes* that counts; "" if *path* changed otherwise since."""
    content, is_known = digest_of(Path(path)), True
    for change in sorted(changes, key=lambda each: each.at_ns, reverse=True):
        if change.edit and is_known and change.edit.after != content:
            return ""
        if change.author:
            return change.author
        # The log of a command holds no digest of what was there before it.
        content, is_known = (change.edit.before, True) if change.edit else (None, False)
    return ""


def _changed_s(path: str) -> float:
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return 0.0


def at_work(store: Path, *, but: str) -> dict[str, list[Path]]:
    """Return the other sessions that are open, each with the files that it changed.

    Args:
        store: The folder with the records of all sessions.
        but: The id of the session that asks.
    """
    found: dict[str, list[Path]] = {}
    for record in sorted(store.glob(f"*/{CHANGES}")):
        if record.parent.name != but and is_held(record):
            with contextlib.suppress(OSError):  # its session has just been deleted
                found[record.parent.name] = _standing_changes(Journal(record.parent))
    return found


def _standing_changes(journal: Journal) -> list[Path]:
    """Return the files that a session changed, without the runs that were undone."""
    journal.read()
    runs = [run for run in journal.runs if not run.taken_back]
    paths = [change.path for run in runs for change in run.changes]
    paths += [path for run in runs for log in journal.logs_of(run) for path in changed_files(log)]
    return list(dict.fromkeys(paths))


def restore(version: KeptVersion, store: Path) -> Path | None:
    """Put a version back; return where the file that was there is kept, None if there was none.

    Raises:
        OSError: It cannot be put back, or its folder is a link now (ELOOP or ENOTDIR); the file
            that was there has its name again.
    """
    path = version.path
    with directory_at(path.parent, create=True):  # never behind a link that took a folder's place
        pass
    moved = None
    if os.path.lexists(path):
        moved = trees.move_aside(path, private_dir(store / _REPLACED))
    try:
        put_copy(version.kept, path, version.state, version.attributes)
        if version.state is None and version.mode is not None:
            path.chmod(version.mode)
    except OSError:
        if moved:
            moved.replace(path)
        raise
    return moved


def bound_store(store: Path, *, but: str, days_max: int, bytes_max: int, since_s: float) -> None:
    """Remove old records of other sessions than *but*, and the oldest kept files beyond a size.

    What was recorded after *since_s* stays. A command whose kept files are removed says so.

    Args:
        store: The folder with the records of all sessions.
        but: The id of the session that goes on.
        days_max: Records that were not written to for so many days are removed.
        bytes_max: Kept files beyond it are removed, the oldest command's first; 0 for no limit.
        since_s: The time that this program started, in seconds of the clock on the wall.

    Raises:
        OSError: The folder cannot be read or written.
    """
    if not (store / _TAG).exists():
        write_private(private_dir(store) / _TAG, _TAG_TEXT)
    limit_s = time.time() - days_max * _DAY_S
    trees.forget_old(store / _REPLACED)
    for path in [*store.glob(f"*/{CHANGES}")]:
        with contextlib.suppress(FileNotFoundError):  # another process is removing it as well
            if path.parent.name != but and path.stat().st_mtime < limit_s:
                shutil.rmtree(path.parent, ignore_errors=True)
    if bytes_max:
        _drop_beyond(store, bytes_max, since_s)


def _drop_beyond(store: Path, bytes_max: int, since_s: float) -> None:
    commands: list[tuple[float, int, Path]] = []
    for log in store.glob(f"*/commands/*/{LOG}"):
        with contextlib.suppress(OSError):
            commands.append((log.stat().st_mtime, _taken_bytes(log.parent), log.parent))
    rest = sum(size for _at, size, _folder in commands) - bytes_max
    for at_s, size, folder in sorted(commands):
        if rest <= 0 or at_s >= since_s:
            return
        if size and not is_running(folder):
            drop_images(str(folder))
            rest -= size


def _taken_bytes(folder: Path) -> int:
    total = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name != LOG:
                total += entry.stat(follow_symlinks=False).st_blocks * 512
    return total


def _of_command(log: CommandLog, session: str) -> Iterator[KeptVersion]:
    for record in log.records:
        if record.kind not in ("gone", "write") or record.state is None:
            continue
        if not (record.state.is_file or stat.S_ISLNK(record.state.mode)):
            continue
        kept = log.folder / record.to
        if (size := _size(kept)) is not None:
            yield KeptVersion(
                *(Path(record.path), kept, session, log.command, record.at_ns, size),
                state=record.state,
                attributes=record.attributes,
            )


def _size(kept: Path) -> int | None:
    try:
        return kept.lstat().st_size
    except OSError:
        return None


_COMPARED_BYTES_MAX: Final = 2_000_000


def differences(
    changes: Sequence[Change],
    contents: ContentStore,
    logs: Sequence[CommandLog] = (),
    undone: Sequence[Change] = (),
) -> Iterator[Difference]:
    """Yield the files that differ since *changes*, including later changes by others.

    *logs* are those of commands that changed files as well, *undone* later changes that were taken
    back. What git keeps for itself is left out.
    """
    if logs:
        edits = edits_of(changes, logs)
        others = {*conflicts(edits, logs, undone)}
        for path, origin in origins(edits, logs).items():
            if "/.git/" not in path:
                is_foreign = path in others
                yield from _since(Path(path), origin, contents, is_foreign=is_foreign)
        return
    for span in spans(changes):
        now = digest_of(span.path)
        if now != span.before:
            yield _difference(span, now, contents)


def _difference(span: ChangeSpan, digest_now: str | None, contents: ContentStore) -> Difference:
    is_foreign = not span.unbroken or digest_now != span.after
    before = b"" if span.before is None else contents.get(span.before)
    was_there = span.before is not None
    found = _compared(span.path, before, was_there=was_there, is_foreign=is_foreign)
    return found or Difference(span.path, "changed", "")  # restored while we looked


def _since(
    path: Path, origin: OriginalFile, contents: ContentStore, *, is_foreign: bool
) -> Iterator[Difference]:
    before = None if origin.was_there else b""
    if isinstance(origin.before, str):
        before = contents.get(origin.before)
    elif origin.before is not None:
        with contextlib.suppress(OSError):
            before = content_of(origin.before, _COMPARED_BYTES_MAX + 1)
    if before is None and origin.state and origin.state.is_file and not origin.note:
        # Nothing wrote to it: only its mode, owner or times changed.
        with contextlib.suppress(OSError):
            before = content_of(path, _COMPARED_BYTES_MAX + 1)
    if not origin.was_there and not os.path.lexists(path):
        return
    notes = [origin.note] if origin.note else []
    if (mode := mode_of(path)) is not None and origin.state:
        was = stat.S_IMODE(origin.state.mode)
        notes += [f"mode {was:o} → {mode:o}"] if was != mode else []
    found = _compared(path, before, notes, was_there=origin.was_there, is_foreign=is_foreign)
    if found:
        yield found


def _compared(
    path: Path,
    before: bytes | None,
    known: Sequence[str] = (),
    *,
    was_there: bool,
    is_foreign: bool,
) -> Difference | None:
    """Compare a file with what it held *before*; return None if nothing differs."""
    try:
        now = content_of(path, _COMPARED_BYTES_MAX + 1)
    except OSError as error:
        note = f"cannot be compared: {error.strerror}"
        return Difference(path, "changed", "", note=note)
    kind = "deleted" if now is None else "changed" if was_there else "new"
    notes = [*known]
    if is_foreign:
        notes.append("changed by somebody else too")
    if was_there and now is not None and now == before:
        return Difference(path, kind, "", note="; ".join(notes)) if notes else None
    is_empty = not was_there and now == b""
    if is_empty:
        notes.append("empty")
    if before is None:
        notes.append("what it held before was not kept")
    elif looks_binary(before) or looks_binary(now or b""):
        notes.append("binary")
    elif max(len(before), len(now or b"")) > _COMPARED_BYTES_MAX:
        notes.append("too large to be compared")
    else:
        found = diff(decode(before)[0], decode(now or b"")[0], lines_max=None)
        counts, shown = (found.added, found.removed), found.text
        note = "; ".join(notes)
        return Difference(path, kind, found.whole, *counts, note, shown=shown, is_empty=is_empty)
    return Difference(path, kind, "", note="; ".join(notes))
