"""Carry out an undo as a transaction: all steps on disk first, then one after the other.

    plan.jsonl    the folder of kept files and the record of each step, the last change first
    progress      the number of each step, before it is done, and whether it has something to do;
                  again after it, if it failed

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
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from agent_cli.system.fixed_paths import directory_at
from agent_cli.system.paths import private_dir
from agent_cli.system.private_files import write_private
from agent_cli.system.records import dataclass, field
from agent_cli.undo.kept_files import LINK_REFUSED, copy_content, inode_of, set_attributes
from agent_cli.undo.logs import UNDONE
from agent_cli.undo.records import ChangeRecord, State, repository_of_object

CONTENT: Final = "content"
"""The kind of a step for a file that a tool wrote: `to` is the kept content, "" for no file."""

_PLAN, _PROGRESS, _DONE = "plan.jsonl", "progress", "done"
_FAILED: Final = 2
_NOT_PUT_BACK: Final = "it could not be put back"
_WITH_KEPT: Final = ("gone", "write", CONTENT)
_NAME_CHARS: Final = 50  # of up to four bytes, of the 255 of a name
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
    kept: set[Path] = field(default_factory=set[Path])

    def add(self, step: Step, why: str) -> None:
        """Add a step that failed."""
        record = step.record
        if record.to and record.kind in _WITH_KEPT:
            self.kept.add(Path(step.kept, record.to))
            why += "; `agent-cli undo list` has it"
        self.faults.append(f"{record.path}: {why}")


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


def carry_out(folder: Path) -> UndoOutcome:
    """Carry out the plan in *folder*, from where it was interrupted; blocks.

    A step that fails is reported, and the others are done all the same.

    Raises:
        OSError: The plan cannot be read, or the progress cannot be written.
    """
    outcome = UndoOutcome()
    lines = (folder / _PLAN).read_text(encoding="utf-8").splitlines()[1:]
    steps = [Step(kept, ChangeRecord.parse(record)) for kept, *record in map(json.loads, lines)]
    begun = _begun(folder / _PROGRESS)
    if (folder / _DONE).exists():
        for number in (number for number, was_due in begun.items() if was_due == _FAILED):
            outcome.add(steps[number], _NOT_PUT_BACK)
        return outcome
    stays = partial(_is_kept_object, _made_in_git(steps))
    times: dict[str, State] = {}
    with (folder / _PROGRESS).open("ab", buffering=0) as progress:
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
                        _undo(step)
                except OSError as error:
                    progress.write(b"%d %d\n" % (number, _FAILED))
                    outcome.add(step, error.strerror or str(error))
            elif was_due == _FAILED:
                outcome.add(step, _NOT_PUT_BACK)
            if is_due:
                _follow(times, step.record)
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
        _give_copy(kept, path.name, folder)
    if state:
        _describe(str(path), state, attributes)


def forget_plan(folder: Path) -> None:
    """Remove the plan: its end is recorded elsewhere."""
    # First what makes it a plan.
    with contextlib.suppress(OSError):
        (folder / _PLAN).unlink()
    shutil.rmtree(folder, ignore_errors=True)


def _begun(progress: Path) -> dict[int, int]:
    """Return the steps that were begun, with whether each had something to do."""
    try:
        text = progress.read_bytes()
    except FileNotFoundError:
        return {}
    whole = text[: text.rfind(b"\n") + 1]  # the last line may be cut off
    os.truncate(progress, len(whole))
    return {int(number): int(is_due) for number, is_due in map(bytes.split, whole.splitlines())}


def _made_in_git(steps: Sequence[Step]) -> frozenset[str]:
    """Return the folders and files of git that were made, and the `.git` folders."""
    made = (step.record.path for step in steps if step.record.kind == "made")
    return frozenset(path for path in made if "/.git/" in f"{path}/")


def _is_kept_object(made: frozenset[str], record: ChangeRecord) -> bool:
    """Return whether *record* made an object of a repository that stays."""
    repository = repository_of_object(record.path) if record.kind == "made" else ""
    return repository != "" and repository not in made


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


def _follow(times: dict[str, State], record: ChangeRecord) -> None:
    """Note the times that folders are to have in the end, under their names in the end."""
    match record.kind:
        case "times" | "folder" | "meta" if record.state and record.state.is_folder:
            times[record.path] = record.state
        case "made" | "came":
            times.pop(record.path, None)
        case "moved":
            _rename(times, {record.to: record.path})
        case "swap":
            _rename(times, {record.to: record.path, record.path: record.to})
        case _:
            pass


def _rename(times: dict[str, State], names: dict[str, str]) -> None:
    renamed: dict[str, State] = {}
    for path, state in times.items():
        for now, then in names.items():
            if f"{path}/".startswith(f"{now}/"):
                renamed[then + path.removeprefix(now)] = state
                break
        else:
            renamed[path] = state
    times.clear()
    times.update(renamed)


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
                _describe(record.path, state, record.attributes)
            case "write":
                assert state
                _write_back(Path(step.kept, record.to), record, step.kept, name, folder)
                _describe(record.path, state, record.attributes)
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
                _describe(record.path, state, record.attributes)
            case "meta" if state and _found(record.path):
                _describe(record.path, state, record.attributes)
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
    os.rename(name, aside / f"{secrets.token_hex(8)}-{name[:_NAME_CHARS]}", src_dir_fd=folder)


def _give_back(kept: Path, name: str, folder: int) -> None:
    """Give the kept file, or a copy, the name *name* again."""
    try:
        os.link(kept, name, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        return
    except OSError as error:
        if error.errno not in LINK_REFUSED:
            raise
        _give_copy(kept, name, folder)


def _give_copy(kept: Path, name: str, folder: int) -> None:
    if kept.is_symlink():
        os.symlink(kept.readlink(), name, dir_fd=folder)
    else:
        _copy(kept, name, folder)


def _write_back(kept: Path, record: ChangeRecord, store: str, name: str, folder: int) -> None:
    """Write the kept content into the same file, so that its other names keep it too."""
    found = _found(record.path)
    if found and _is(found, record.state) and stat.S_ISREG(found.st_mode):
        if not found.st_mode & stat.S_IWUSR:
            os.chmod(name, stat.S_IMODE(found.st_mode) | stat.S_IWUSR, dir_fd=folder)
        try:
            _fill(kept, os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder))
        except OSError as error:
            if error.errno != errno.ETXTBSY:
                raise
        else:
            return
    if found:
        _move_aside(store, name, folder)
    _copy(kept, name, folder)


def _undo_tool(step: Step, name: str, folder: int) -> None:
    record = step.record
    if not record.to:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
        return
    _copy(Path(step.kept, record.to), name, folder)
    if record.attributes:
        os.chmod(name, int(record.attributes["mode"]), dir_fd=folder)


def _copy(kept: Path, name: str, folder: int) -> None:
    """Put a copy of *kept* at *name*, at once; a draft left by a kill is written again."""
    new = f".{name[:_NAME_CHARS]}-{kept.lstat().st_ino}.undo"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        _fill(kept, os.open(new, flags, 0o600, dir_fd=folder))
        os.rename(new, name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new, dir_fd=folder)


def _fill(kept: Path, target: int) -> None:
    with os.fdopen(target, "wb", buffering=0):
        source = os.open(kept, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.ftruncate(target, 0)
            copy_content(source, target)
        finally:
            os.close(source)


def _describe(path: str, state: State, attributes: dict[str, str] | None) -> None:
    """Give the file at *path* the owner, mode, attributes and times of *state*."""
    found = os.lstat(path)
    if (found.st_uid, found.st_gid) != (state.owner, state.group):
        with contextlib.suppress(PermissionError):
            os.chown(path, state.owner, state.group, follow_symlinks=False)
        found = os.lstat(path)
    if not stat.S_ISLNK(state.mode):
        if found.st_mode != state.mode:
            Path(path).chmod(stat.S_IMODE(state.mode))
        if attributes is not None:
            set_attributes(path, attributes)
    os.utime(path, ns=(state.read_ns, state.changed_ns), follow_symlinks=False)


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
