"""Undo what tools and commands of one run changed, in the order in which it happened."""

import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

from agent_cli.system.records import dataclass
from agent_cli.undo.generated import is_cache
from agent_cli.undo.logs import CommandLog, Signature, narrowed
from agent_cli.undo.records import ChangeRecord, State, is_git_object, signature_at
from agent_cli.undo.reversal import CONTENT, Step
from agent_cli_tools.snapshots.changes import Change, ChangeSpan, extended
from agent_cli_tools.snapshots.contents import NO_FILE_ANY_MORE, ContentStore, digest_of

_OF_ONE_FILE: Final = ("made", "write", "meta", "gone")
_OF_FOLDERS: Final = ("moved", "swap", "folder", "came")


_Expected: TypeAlias = tuple[int, str | Signature]
"""When a file was left, and how: its digest, or its signature."""
_Event: TypeAlias = tuple[int, int, int, Change | ChangeRecord]


def edits_of(changes: Sequence[Change], logs: Sequence[CommandLog]) -> list[ChangeSpan]:
    """Return the edits of a run with commands, in the order of their last changes.

    An edit is a span between whose changes no command changed the file.
    """
    edits: list[ChangeSpan] = []
    open_edits: dict[Path, ChangeSpan] = {}
    for _at, _log, _number, event in _events(changes, logs):
        if isinstance(event, ChangeRecord):
            for path in [each for each in open_edits if _touches(event, each)]:
                edits.append(open_edits.pop(path))
            continue
        open_edits[event.path] = extended(open_edits.get(event.path), event)
    return sorted([*edits, *open_edits.values()], key=lambda edit: edit.at_ns)


def steps_of(
    edits: Sequence[ChangeSpan], logs: Sequence[CommandLog], contents: ContentStore
) -> list[Step]:
    """Return the steps of the undo, the last change first."""
    found: list[tuple[int, int, int, Step]] = []
    for number, edit in enumerate(edits):
        steps = [ChangeRecord("made", edit.at_ns, str(folder)) for folder in edit.made]
        mode = None if edit.mode is None else {"mode": str(edit.mode)}
        steps.append(
            ChangeRecord(CONTENT, edit.at_ns, str(edit.path), edit.before or "", None, mode)
        )
        kept = str(contents.folder)
        found += ((edit.at_ns, -1, number, Step(kept, record)) for record in steps)
    for at_ns, log, number, record in _records(logs):
        found.append((at_ns, log, number, Step(str(logs[log].folder), record)))
    return [step for *_when, step in sorted(found, key=lambda each: each[:3])][::-1]


def conflicts(
    edits: Sequence[ChangeSpan], logs: Sequence[CommandLog], undone: Sequence[Change]
) -> list[str]:
    """Return the files that others changed between the changes of the run, or since.

    Not caches of tools: the user may have run the tests since. Nor files that only the changes
    *undone* came between: their undo gave them back their content, but not its time.
    """
    broken = {str(edit.path) for edit in edits if not edit.unbroken}
    expected: dict[str, _Expected] = {}
    for edit in edits:
        expected[str(edit.path)] = (edit.at_ns, edit.after)
    for log in sorted(logs, key=_end):
        seen: set[str] = set()
        for record in log.records:
            if _has_moved_folder(record, log):
                _move_expected(expected, record)
            if record.path in seen or record.kind not in ("gone", "write", "meta"):
                continue
            seen.add(record.path)
            at_ns, left = expected.get(record.path, (0, ""))
            if at_ns and at_ns < log.began_ns and not _is_left(record, left, log):
                broken.add(record.path)
        for path, left in log.after.items():
            if log.ended_ns > expected.get(path, (0,))[0]:
                expected[path] = (log.ended_ns, left)
    roots = _roots(logs)
    moved = {record.path for log in logs for record in log.records if record.kind == "moved"}
    moved -= {str(folder) for edit in edits for folder in edit.made}
    for path, (_at, left) in expected.items():
        is_now = _is_now(path, left, may_be_folder=path not in moved)
        is_now = is_now or any(_is_given_back(each, path, left) for each in undone)
        if not (is_git_object(path) or is_cache(path, roots) or is_now):
            broken.add(path)
    return sorted(broken)


def _has_moved_folder(record: ChangeRecord, log: CommandLog) -> bool:
    """Return whether the record is of a folder that a command renamed; its call may have failed."""
    if record.kind != "moved" or record.state is None or not record.state.is_folder:
        return False
    return log.after.get(record.path) is None or log.after.get(record.to) is not None


def _move_expected(expected: dict[str, _Expected], move: ChangeRecord) -> None:
    """Expect the content of a folder at its path after *move*."""
    for path in [each for each in expected if each.startswith(f"{move.path}/")]:
        if expected[path][0] < move.at_ns:
            left = expected.pop(path)
            after = move.to + path.removeprefix(move.path)
            expected[after] = max(left, expected.get(after, left), key=lambda each: each[0])


def replaced_files(
    changes: Sequence[Change], logs: Sequence[CommandLog], contents: ContentStore
) -> dict[str, str]:
    """Return the files that existed before a run and that it changed, with what is kept of each."""
    found: dict[str, str | None] = {}
    for _at, number, _at_log, event in _events(changes, logs):
        if isinstance(event, Change):
            kept = None if event.before is None else str(contents.folder / event.before)
            found.setdefault(str(event.path), kept)
        elif event.kind in ("made", "came"):
            found.setdefault(event.path, None)
        elif event.kind in ("gone", "write"):
            found.setdefault(event.path, str(logs[number].folder / event.to))
        elif event.kind in ("moved", "lost"):
            found.setdefault(event.path, "")
            if event.kind == "moved":
                found.setdefault(event.to, found[event.path])
    return {path: kept for path, kept in found.items() if kept is not None}


def without_later_work_of_hooks(
    changes: Sequence[Change],
    logs: Sequence[CommandLog],
    hook_logs: Collection[str],
    undone: Sequence[Change],
) -> tuple[Sequence[CommandLog], Sequence[str]]:
    """Return the logs without files that hooks alone changed, and others since; and these files.

    A hook may keep a file of its own, to which it adds with each run. It is none of the run's.
    """
    edits = edits_of(changes, logs) if hook_logs else ()
    broken = {*conflicts(edits, logs, undone)} if hook_logs else set[str]()
    if not broken:
        return logs, ()
    shared = {str(edit.path) for edit in edits}
    for log in logs:
        is_hook = log.folder.name in hook_logs
        for each in log.records:
            if not (is_hook and each.kind in _OF_ONE_FILE):
                shared |= {each.path, each.to}
    left = broken - shared
    return [narrowed(log, lambda path: path not in left) for log in logs], sorted(left)


@dataclass(frozen=True, slots=True)
class OriginalFile:
    """A file as it was before a run.

    Attributes:
        before: The digest, for a file that a tool changed first; the path of the kept file, for one
            that a command changed first, or of the file itself, for one that was only moved; None
            if there was no file, or its content is not kept.
        state: Its state, for a file that a command changed first.
        note: What became of it otherwise.
        lost: Why its content could not be kept, if it could not.
    """

    was_there: bool
    before: str | Path | None = None
    state: State | None = None
    note: str = ""
    lost: str = ""


def origins(edits: Sequence[ChangeSpan], logs: Sequence[CommandLog]) -> dict[str, OriginalFile]:
    """Return the files that differ since the run, as they were before, in order of first changes.

    Without folders, the files of git's own that only it reads, and the caches of tools.
    """
    found: dict[str, OriginalFile] = {}
    names_now: dict[str, str] = {}
    events: list[tuple[int, int, int, ChangeSpan | ChangeRecord]] = [*_records(logs)]
    events += [(edit.began_ns, -1, number, edit) for number, edit in enumerate(edits)]
    for _at, log, _number, event in sorted(events, key=lambda each: each[:3]):
        if isinstance(event, ChangeSpan):
            origin = OriginalFile(event.before is not None, event.before)
            _note_content(found, str(event.path), origin, names_now)
        else:
            _note(found, event, logs[log].folder, names_now)
    for path, first in names_now.items():
        if not _holds_the_same(path, found[first].state):
            found[first] = replace(found[first], before=None)
    edited_ns = {str(edit.path): edit.at_ns for edit in edits}
    now = {
        path: left
        for log in sorted(logs, key=_end)
        for path, left in log.after.items()
        if log.ended_ns > edited_ns.get(path, 0)
    }
    roots = _roots(logs)
    return {
        path: each
        for path, each in found.items()
        if not is_cache(path, roots) and _differs(path, each, now)
    }


def changed_files(log: CommandLog) -> list[Path]:
    """Return the files that a command left different, without what git keeps for itself."""
    return [Path(path) for path in origins((), [log]) if "/.git/" not in path]


def _note(
    found: dict[str, OriginalFile],
    record: ChangeRecord,
    folder: Path,
    names_now: dict[str, str],
) -> None:
    """Note the facts of a record about the files as they were.

    *names_now* are the names of those that were moved, each with the name before.
    """
    path, state = record.path, record.state
    match record.kind:
        case "gone" | "write":
            origin = OriginalFile(True, folder / record.to, state)
            _note_content(found, path, origin, names_now)
        case "moved":
            if path not in found:
                names_now[path] = path
            found.setdefault(path, OriginalFile(True, None, state, f"moved to {record.to}"))
            found.setdefault(record.to, OriginalFile(False, note=f"moved from {path}"))
            for present in [each for each in names_now if f"{each}/".startswith(f"{path}/")]:
                first, now = names_now.pop(present), record.to + present.removeprefix(path)
                names_now[now] = first
                found[first] = replace(found[first], before=Path(now))
        case "made" | "came":
            found.setdefault(path, OriginalFile(False))
        case "meta":
            found.setdefault(path, OriginalFile(True, None, state))
        case "lost":
            first = names_now.get(path, path)
            origin = OriginalFile(True, None, state, f"not kept: {record.to}")
            known = found.setdefault(first, origin)
            if known.was_there and (known.before is None or path in names_now):
                found[first] = replace(known, before=None, lost=record.to)
        case _:
            pass


def _note_content(
    found: dict[str, OriginalFile], path: str, origin: OriginalFile, names_now: dict[str, str]
) -> None:
    """Note the content of a file, also if it was only moved, or got another mode or owner."""
    if first := names_now.pop(path, ""):
        found[first] = replace(found[first], before=origin.before)
    known = found.setdefault(path, origin)
    if known.was_there and known.before is None and not known.note:
        found[path] = replace(known, before=origin.before)


def fates(edits: Sequence[ChangeSpan], logs: Sequence[CommandLog]) -> tuple[list[Path], list[Path]]:
    """Return the files that the undo restores, and the files that it removes.

    What git keeps for itself counts as one. Files that could not be kept are neither.
    """
    found = origins(edits, logs)
    named = {_shown(path): each for path, each in reversed(found.items()) if not each.lost}
    restored = [path for path, each in named.items() if each.was_there or path.name == ".git"]
    kept = {*restored}
    deleted = [path for path in named if path not in kept]
    return restored[::-1], deleted[::-1]


def lost_files(edits: Sequence[ChangeSpan], logs: Sequence[CommandLog]) -> list[str]:
    """Return a sentence about each file whose content could not be kept, by its name before."""
    return [f"{path}: {each.lost}" for path, each in origins(edits, logs).items() if each.lost]


def extent(
    edits: Sequence[ChangeSpan], logs: Sequence[CommandLog], contents: ContentStore
) -> tuple[int, int]:
    """Return how many files the undo restores or takes away, and how many bytes they hold.

    A renamed file is one, and so is what git keeps for itself.
    """
    found = origins(edits, logs)
    sources = {f"moved from {path}" for path in found}
    mine = {path: each for path, each in found.items() if each.note not in sources}
    return len({_shown(path) for path in mine}), sum(
        _size(Path(path), each, contents) for path, each in mine.items()
    )


def _size(path: Path, origin: OriginalFile, contents: ContentStore) -> int:
    """Return the size of a file before the run, or, if there was none, as it is now."""
    if origin.state:
        return origin.state.size if origin.state.is_file else 0
    if isinstance(origin.before, str):
        path = contents.folder / origin.before
    try:
        found = (origin.before if isinstance(origin.before, Path) else path).lstat()
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def _events(changes: Sequence[Change], logs: Sequence[CommandLog]) -> list[_Event]:
    """Return all changes in order."""
    of_tools = ((change.at_ns, -1, number, change) for number, change in enumerate(changes))
    return sorted([*of_tools, *_records(logs)], key=lambda each: each[:3])


def _records(logs: Sequence[CommandLog]) -> Iterator[tuple[int, int, int, ChangeRecord]]:
    for at, log in enumerate(logs):
        latest_ns = 0
        for number, record in enumerate(log.records):
            # The clock on the wall may be set back; the order of a log stands.
            latest_ns = max(latest_ns, record.at_ns)
            yield latest_ns, at, number, record


def _touches(record: ChangeRecord, path: Path) -> bool:
    """Return whether a record is about *path*, or about a folder around it."""
    names = (record.path, record.to) if record.kind in ("moved", "swap") else (record.path,)
    if str(path) in names:
        return record.kind != "times"
    return record.kind in _OF_FOLDERS and any(str(path).startswith(f"{name}/") for name in names)


def _is_left(record: ChangeRecord, left: str | Signature, log: CommandLog) -> bool:
    """Return whether a command found a file as the change before it had left it."""
    state = record.state
    if state is None or not state.is_file:
        return True
    if left is None:
        return False
    if isinstance(left, str):
        return not record.to or digest_of(log.folder / record.to) == left
    return len(left) != 3 or left == [state.mode, state.size, state.changed_ns]


def _roots(logs: Sequence[CommandLog]) -> set[str]:
    return {root for log in logs for root in log.roots}


def _end(log: CommandLog) -> int:
    return log.ended_ns


def _differs(path: str, origin: OriginalFile, now: Mapping[str, Signature]) -> bool:
    """Return whether the file *path* is to be named."""
    if is_git_object(path) or (origin.state and origin.state.is_folder):
        return False
    if path not in now:
        return True
    left = now[path]
    if left is None or not origin.was_there:
        return left is not None and len(left) > 1 if not origin.was_there else True
    state = origin.state
    return state is None or left != [state.mode, state.size, state.changed_ns]


def _holds_the_same(path: str, state: State | None) -> bool:
    """Return whether the file *path*, which was moved there in *state*, was not written since."""
    now = signature_at(path)
    if state is None or now is None:
        return False
    return now[1:] == [state.size, state.changed_ns]


def _shown(path: str) -> Path:
    before, git, _inside = path.partition("/.git/")
    return Path(f"{before}/.git") if git else Path(path)


def _is_now(path: str, left: str | Signature, *, may_be_folder: bool) -> bool:
    if isinstance(left, str):
        return left != NO_FILE_ANY_MORE and digest_of(Path(path)) == left
    now = signature_at(path)
    if left is None and now is not None and len(now) == 1:
        # A tool, or the person, needed the folder again: in the way of a renamed one alone.
        return may_be_folder
    return now == left or (now is None and left is not None and len(left) == 1)


def _is_given_back(change: Change, path: str, left: str | Signature) -> bool:
    """Return whether *change* found the file as it was *left*, and its undo gave that back."""
    if str(change.path) != path or not isinstance(left, list) or len(left) != 3:
        return False
    now = signature_at(path)
    is_same = now is not None and now[:2] == left[:2] and change.found_ns == left[2]
    return is_same and digest_of(change.path) == change.before
