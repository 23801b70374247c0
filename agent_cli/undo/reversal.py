"""Carry out an undo as a transaction: all steps on disk first, then one after the other.

    plan.jsonl    the folder of kept files and the record of each step, the last change first
    progress      the number of each step, before it is done, and whether it has something to do;
                  again after it, if it failed; and when the undo stood still, the end negative

A plan that is complete is carried out, by whoever finds it: each step may be repeated, and none
that has been done is begun again. What the undo takes away goes to the folder `undone` of the log.
"""

import contextlib
import ctypes
import errno
import json
import os
import secrets
import shutil
import stat
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from agent_cli.system.fixed_paths import directory_at
from agent_cli.system.paths import private_dir
from agent_cli.system.private_files import write_private
from agent_cli.system.records import dataclass, field
from agent_cli.system.trees import file_time_ns
from agent_cli.undo.kept_files import (
    LINK_REFUSED,
    NAME_CHARS,
    Inode,
    copy_to,
    fill,
    give_copy,
    inode_of,
    is_begun_copy,
    set_state,
)
from agent_cli.undo.logs import UNDONE
from agent_cli.undo.records import (
    ChangeRecord,
    State,
    follow_times,
    is_git_index,
    is_kept_object,
    made_in_git,
)

CONTENT: Final = "content"
"""The kind of a step for a file that a tool wrote: `to` is the kept content, "" for no file."""

_PLAN, _PROGRESS, _DONE = "plan.jsonl", "progress", "done"
_FAILED: Final = 2
_NOT_PUT_BACK: Final = "it could not be put back"
_WITH_KEPT: Final = ("gone", "write", CONTENT)
_EXCHANGE = 2
_LIBC = ctypes.CDLL(None, use_errno=True)


class Step(NamedTuple):
    """One record to undo; `kept` is the folder of its kept file."""

    kept: str
    record: ChangeRecord


@dataclass(slots=True)
class UndoOutcome:
    """The changes that could not be undone: a sentence for each, and the files still `kept`."""

    faults: list[str] = field(default_factory=list[str])
    failed: set[Path] = field(default_factory=set[Path])
    kept: set[Path] = field(default_factory=set[Path])

    def add(self, step: Step, why: str) -> None:
        """Add a step that failed."""
        record = step.record
        if record.to and record.kind in _WITH_KEPT:
            self.kept.add(Path(step.kept, record.to))
            why += "; `agent-cli undo list` has it"
        self.failed.add(Path(record.path))
        self.faults += {f"{record.path}: {why}"} - {*self.faults}


def write_plan(folder: Path, steps: Sequence[Step], header: dict[str, str]) -> None:
    """Write the plan of an undo to *folder* and the disk, at once: before, nothing is to be done.

    Raises:
        OSError: It cannot be written.
    """
    if folder.exists():  # the progress of an earlier plan, killed while that was forgotten
        shutil.rmtree(folder)
    lines = [json.dumps(header), *(json.dumps([step.kept, *step.record]) for step in steps)]
    try:
        write_private(folder / _PLAN, ("\n".join(lines) + "\n").encode())
    except OSError:
        forget_plan(folder)  # it may have its name, and not be on the disk yet
        raise


def has_plan(folder: Path) -> bool:
    """Return whether there is an undo to carry out, or to record as done."""
    return (folder / _PLAN).exists()


def header_of(folder: Path) -> dict[str, str]:
    """Return the header of the plan in *folder*."""
    with (folder / _PLAN).open(encoding="utf-8") as file:
        found: dict[str, str] = json.loads(file.readline())
    return found


class _Standstill:
    """Tells the files that others changed while an interrupted undo stood still.

    Theirs is a file that changed in any way in one of the *spans* of time, but not by the undo.
    """

    def __init__(self, spans: Sequence[tuple[int, int]]) -> None:
        """Without *spans*, the undo begins, and all files were compared."""
        self._spans = spans
        self._own: set[Inode] = set()
        self._has_unlinked = False

    def before(self, step: Step, *, was_begun: bool) -> None:
        """Look at the file of a *step* before it is done.

        Raises:
            OSError: Somebody changed it.
        """
        record, found = step.record, _found(step.record.path)
        if not (self._spans and found) or record.kind in ("moved", "swap", "times", "folder"):
            return
        if stat.S_ISDIR(found.st_mode) or is_git_index(record.path):  # `git status` writes it
            return
        changed_ns = found.st_mtime_ns if self._has_unlinked else found.st_ctime_ns
        is_theirs = any(since < changed_ns < until for since, until in self._spans)
        is_known = inode_of(found) in self._own or (was_begun and _may_be_begun(step))
        if is_theirs and not is_known:
            raise OSError(0, "it changed while the undo stood still, so it stays")
        self._own.add(inode_of(found))

    def after(self, record: ChangeRecord, *, was_begun: bool) -> None:
        """Note what a step left, done now or before the undo was interrupted."""
        paths = (record.path, record.to) if record.kind == "swap" else (record.path,)
        there = [found for path in paths if self._spans and (found := _found(path))]
        self._own.update(map(inode_of, there))
        if was_begun and not there and record.kind == "made":
            self._has_unlinked = True  # perhaps one of several names of a file


def carry_out(folder: Path, *, is_new: bool = False) -> UndoOutcome:
    """Carry out the plan in *folder*, from where it was interrupted; blocks.

    A step that fails is reported, and the others are done all the same. Unless the plan *is_new*,
    written a moment ago, a file that others changed meanwhile stays, and is reported too.

    Raises:
        OSError: The plan cannot be read, or the progress cannot be written.
    """
    outcome = UndoOutcome()
    lines = (folder / _PLAN).read_text(encoding="utf-8").splitlines()[1:]
    steps = [Step(kept, ChangeRecord.parse(record)) for kept, *record in map(json.loads, lines)]
    written = [each for each in (folder / _PLAN, folder / _PROGRESS) if each.exists()]
    since_ns = max(each.stat().st_mtime_ns for each in written)
    begun = _begun(folder / _PROGRESS)
    spans = [(since, -negative) for negative, since in begun.items() if negative < 0]
    standstill = _Standstill([] if is_new else [*spans, (since_ns, sys.maxsize)])
    if (folder / _DONE).exists():
        for number in (number for number, was_due in begun.items() if was_due == _FAILED):
            outcome.add(steps[number], _NOT_PUT_BACK)
        return outcome
    stays = partial(is_kept_object, made_in_git(step.record for step in steps))
    times: dict[str, State] = {}
    with (folder / _PROGRESS).open("ab", buffering=0) as progress:
        if not is_new:  # for the one that goes on with this, if it is interrupted, too
            progress.write(b"-%d %d\n" % (file_time_ns(), since_ns))
        for number, step in enumerate(steps):
            was_due = begun.get(number)
            is_due = bool(was_due)
            if number + 1 not in begun:
                try:
                    is_due = is_due or (_is_due(step.record) and not stays(step.record))
                except OSError:  # its undo says why
                    is_due = True
                if was_due is None:
                    progress.write(b"%d %d\n" % (number, is_due))
                try:
                    if is_due and _is_due(step.record):
                        standstill.before(step, was_begun=was_due is not None)
                        _undo(step)
                    if is_due:
                        standstill.after(step.record, was_begun=was_due is not None)
                except OSError as error:
                    progress.write(b"%d %d\n" % (number, _FAILED))
                    outcome.add(step, error.strerror or str(error))
            elif was_due == _FAILED:
                outcome.add(step, _NOT_PUT_BACK)
            if is_due:
                follow_times(times, step.record)
    for path, state in times.items():
        with contextlib.suppress(OSError):
            os.utime(path, ns=(state.read_ns, state.changed_ns), follow_symlinks=False)
    (folder / _DONE).touch()
    return outcome


def put_copy(
    kept: Path, path: Path, state: State | None, attributes: dict[str, str] | None
) -> None:
    """Put a copy of the file *kept* at *path*, where nothing is, with its *state* if known.

    Raises:
        OSError: It cannot be written.
    """
    with directory_at(path.parent) as folder:
        give_copy(kept, path.name, folder)
    if state:
        set_state(str(path), state, attributes)


def forget_plan(folder: Path) -> None:
    """Remove the plan, first what makes it one: its end is recorded elsewhere."""
    with contextlib.suppress(OSError):
        (folder / _PLAN).unlink()
    shutil.rmtree(folder, ignore_errors=True)


def _may_be_begun(step: Step) -> bool:
    """Return whether the file of a step may be as it is because the step was interrupted."""
    record = step.record
    if record.kind in _WITH_KEPT and record.to:
        return is_begun_copy(f"{step.kept}/{record.to}", record.path)
    return record.kind == "meta"


def _begun(progress: Path) -> dict[int, int]:
    """Return the steps that were begun, with whether each had something to do.

    Also the ends of earlier standstills, negative, with their beginnings.
    """
    try:
        text = progress.read_bytes()
    except FileNotFoundError:
        return {}
    whole = text[: text.rfind(b"\n") + 1]  # the last line may be cut off
    os.truncate(progress, len(whole))
    return {int(number): int(is_due) for number, is_due in map(bytes.split, whole.splitlines())}


def _is_due(record: ChangeRecord) -> bool:
    """Return whether there is something to undo: the call may have failed."""
    here, state = _found(record.path), record.state
    match record.kind:
        case "made":
            return here is not None
        case "came":  # with a state if something was there before, and the call may have failed
            return here is not None and (state is None or _is(here, state))
        case "gone":
            return here is None or not _is(here, state)
        case "moved":
            # Not by inode: a folder that an earlier step made again has another one.
            there = _found(record.to)
            is_it = there and state and stat.S_IFMT(there.st_mode) == stat.S_IFMT(state.mode)
            return here is None and bool(is_it)
        case "swap":
            return here is not None and not _is(here, state) and _found(record.to) is not None
        case kind:
            return kind != "lost"


def _undo(step: Step) -> None:
    """Undo one record; may be called again if it was interrupted."""
    record, state = step.record, step.record.state
    with directory_at(Path(record.path).parent) as folder:
        name = Path(record.path).name
        match record.kind:
            case "made" | "came":
                _take_away(record, step.kept, name, folder)
            case "gone":
                assert state
                if _found(record.path):
                    _move_aside(step.kept, name, folder)
                _give_back(Path(step.kept, record.to), name, folder)
                set_state(record.path, state, record.attributes)
            case "write":
                assert state
                _write_back(Path(step.kept, record.to), record, step.kept, name, folder)
                set_state(record.path, state, record.attributes)
            case "content":
                _undo_tool(step, name, folder)
            case "moved":
                with directory_at(Path(record.to).parent) as source:
                    os.rename(Path(record.to).name, name, src_dir_fd=source, dst_dir_fd=folder)
            case "swap":
                with directory_at(Path(record.to).parent) as source:
                    other = os.fsencode(Path(record.to).name)
                    _exchange(folder, os.fsencode(name), source, other)
            case "folder":
                assert state
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=folder)
                set_state(record.path, state, record.attributes)
            case "meta" if state and _found(record.path):
                set_state(record.path, state, record.attributes)
            case _:
                pass


def _take_away(record: ChangeRecord, kept: str, name: str, folder: int) -> None:
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISDIR(found.st_mode) and record.kind == "made":
        try:
            os.rmdir(name, dir_fd=folder)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            raise OSError(0, "the folder holds files that others made, so it stays") from error
        return
    if record.kind == "made" and found.st_nlink > 1:  # the file stays under its other names
        os.unlink(name, dir_fd=folder)
        return
    try:
        _move_aside(kept, name, folder)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        if record.kind == "came":
            raise OSError(0, "it came from outside the workspace, so it stays") from error
        os.unlink(name, dir_fd=folder)


def _move_aside(kept: str, name: str, folder: int) -> None:
    """Move a file to the folder `undone` of its log."""
    aside = private_dir(Path(kept, UNDONE))
    os.rename(name, aside / f"{secrets.token_hex(8)}-{name[:NAME_CHARS]}", src_dir_fd=folder)


def _give_back(kept: Path, name: str, folder: int) -> None:
    """Give the kept file, or a copy, the name *name* again."""
    try:
        os.link(kept, name, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        return
    except OSError as error:
        if error.errno not in LINK_REFUSED:
            raise
        give_copy(kept, name, folder)


def _write_back(kept: Path, record: ChangeRecord, store: str, name: str, folder: int) -> None:
    """Write the kept content into the same file, so that its other names keep it too."""
    found = _found(record.path)
    if found and _is(found, record.state) and stat.S_ISREG(found.st_mode):
        if not found.st_mode & stat.S_IWUSR:
            os.chmod(name, stat.S_IMODE(found.st_mode) | stat.S_IWUSR, dir_fd=folder)
        try:
            fill(kept, os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder))
        except OSError as error:
            if error.errno != errno.ETXTBSY:
                raise
        else:
            return
    if found:
        _move_aside(store, name, folder)
    copy_to(kept, name, folder)


def _undo_tool(step: Step, name: str, folder: int) -> None:
    record = step.record
    if not record.to:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
        return
    copy_to(Path(step.kept, record.to), name, folder)
    if record.attributes:
        os.chmod(name, int(record.attributes["mode"]), dir_fd=folder)


def _exchange(folder: int, name: bytes, other_folder: int, other: bytes) -> None:
    if _LIBC.renameat2(folder, name, other_folder, other, _EXCHANGE):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _is(found: os.stat_result, state: State | None) -> bool:
    return state is not None and inode_of(found) == (state.device, state.inode)


def _found(path: str) -> os.stat_result | None:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return os.lstat(path)
    return None
