"""Divide a run into what an undo can take back, and what stays because others changed it since."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from agent_cli.system.records import dataclass, field
from agent_cli.undo.logs import CommandLog, narrowed, with_changes
from agent_cli.undo.records import ChangeRecord, State
from agent_cli_tools.snapshots.changes import Change, ChangeSpan, RunChanges, divided, spans
from agent_cli_tools.snapshots.commands import (
    conflicts,
    edits_of,
    fates,
    origins,
    replaced_files,
    without_later_work_of_hooks,
)
from agent_cli_tools.snapshots.contents import NO_FILE_ANY_MORE, digest_of
from agent_cli_tools.snapshots.journal import Journal

_RENAMES: Final = ("moved", "swap")
_LEAVE_FOLDERS: Final = ("made", "folder", "meta", "lost")


@dataclass(frozen=True, slots=True)
class Division:
    """A run, divided for its undo.

    Attributes:
        part: What the undo takes back.
        logs: Those of the part's commands.
        is_logged: Whether the run had logs.
        changed: The files of the run that others changed since.
        left: The paths that stay, with the folders that the run made for them.
        kept: The files that stay, each with what became of it, or "".
        of_hooks: Files that hooks alone changed, and others since; they stay, too.
        is_empty: Whether the part has nothing to take back.
        now: The digests of the files of a run without logs.
    """

    part: RunChanges
    logs: Sequence[CommandLog]
    is_logged: bool
    changed: Sequence[str] = ()
    left: frozenset[str] = frozenset()
    kept: Mapping[Path, str] = field(default_factory=dict[Path, str])
    of_hooks: Sequence[str] = ()
    is_empty: bool = False
    now: Mapping[Path, str | None] = field(default_factory=dict[Path, str | None])

    @property
    def edits(self) -> list[ChangeSpan]:
        """The edits of the part."""
        return edits_of(self.part.changes, self.logs)

    @property
    def todo(self) -> list[ChangeSpan]:
        """The changes of a part without logs that are to be undone."""
        return _todo(self.part.changes, self.now)

    @property
    def is_refused(self) -> bool:
        """Whether nothing can be taken back without what others changed."""
        return bool(self.changed) and self.is_empty


def divide(journal: Journal, run: RunChanges) -> Division:
    """Divide a run by what others changed since."""
    all_logs = journal.logs_of(run)
    is_logged = bool(all_logs)
    undone = journal.undone
    logs, of_hooks = without_later_work_of_hooks(run.changes, all_logs, run.hook_logs, undone)
    edits = edits_of(run.changes, logs)
    now = {} if is_logged else {each.path: digest_of(each.path) for each in run.changes}
    changed = conflicts(edits, logs, undone) if is_logged else _changed_edits(run.changes, now)
    left = _left(run.changes, logs, {*changed})
    if left is None:
        return Division(run, logs, is_logged, changed, is_empty=True)
    part, part_logs = part_of(run, logs, left)
    if is_logged:
        is_empty = not any(fates(edits_of(part.changes, part_logs), part_logs))
    else:
        is_empty = not _todo(part.changes, now)
    return Division(
        *(part, part_logs, is_logged, changed, left),
        kept=dict.fromkeys(map(Path, changed), "") | kept_files(edits, logs, left),
        of_hooks=of_hooks,
        is_empty=is_empty,
        now=now,
    )


def part_of(
    run: RunChanges, logs: Sequence[CommandLog], left: frozenset[str]
) -> tuple[RunChanges, Sequence[CommandLog]]:
    """Return the changes of a run that an undo takes back if it leaves the paths *left*."""
    if not left:
        return run, logs
    part, _rest = divided(run, left)
    return part, with_changes(narrowed(log, part.holds) for log in logs)


def replaced_in(journal: Journal, run_id: str) -> dict[str, str]:
    """Return the files that existed before a run and that it changed, with what is kept of each."""
    run = journal.run(run_id)
    return replaced_files(run.changes, journal.logs_of(run), journal.contents)


def kept_files(
    edits: Sequence[ChangeSpan], logs: Sequence[CommandLog], left: frozenset[str]
) -> dict[Path, str]:
    """Return the later fate of each file that the run changed and that is in *left*."""
    if not left:
        return {}
    found = origins(edits, logs)
    return {Path(path): each.note for path, each in found.items() if path in left}


def _todo(changes: Sequence[Change], now: Mapping[Path, str | None]) -> list[ChangeSpan]:
    return [span for span in spans(changes) if now[span.path] != span.before]


def _changed_edits(changes: Sequence[Change], now: Mapping[Path, str | None]) -> list[str]:
    return [
        str(span.path)
        for span in _todo(changes, now)
        if not span.unbroken or now[span.path] != span.after or span.after == NO_FILE_ANY_MORE
    ]


def _left(
    changes: Sequence[Change], logs: Sequence[CommandLog], changed: set[str]
) -> frozenset[str] | None:
    """Return all paths to leave alone because some were *changed*; None if that is the whole run.

    A file that was renamed, or has hard links, stays under all its names. Git's own files belong
    together, and so does all in a folder that was renamed, or that took the place of a file.
    """
    if not changed:
        return frozenset()
    if any("/.git/" in f"{path}/" for path in changed):
        return None
    records = [record for log in logs for record in log.records if record.kind != "times"]
    left = _with_other_names(changed, records)
    above = {folder for path in left for folder in _folders_above(path)}
    for record in records:
        if record.kind not in _LEAVE_FOLDERS and not above.isdisjoint(_names(record)):
            return None
    edited = {str(change.path) for change in changes}
    touched = edited.union(*(_names(record) for record in records))
    if not edited.isdisjoint(above) or any(
        folder in left for path in touched - left for folder in _folders_above(path)
    ):
        return None
    made = {str(folder) for change in changes for folder in change.made}
    made |= {record.path for record in records if record.kind == "made"}
    there = (path for path in left if os.path.lexists(path))
    return frozenset(left | (made & {each for path in there for each in _folders_above(path)}))


def _with_other_names(changed: set[str], records: Sequence[ChangeRecord]) -> set[str]:
    """Return *changed* with all names that its files had in the run: renamed, or of hard links."""
    renames = [{*_names(record)} for record in records if record.kind in _RENAMES]
    states = [(record.path, record.state) for record in records if record.state]
    for path in changed:
        with suppress(OSError):
            states.append((path, State.of(os.lstat(path))))
    links: dict[tuple[int, int], set[str]] = {}
    for path, state in states:
        if state.is_file:
            links.setdefault((state.device, state.inode), set()).add(path)
    same, left = [*renames, *links.values()], {*changed}
    while more := [names for names in same if not (names <= left or names.isdisjoint(left))]:
        left.update(*more)
    return left


def _names(record: ChangeRecord) -> tuple[str, ...]:
    return (record.path, record.to) if record.kind in _RENAMES else (record.path,)


def _folders_above(path: str) -> Iterator[str]:
    return map(str, Path(path).parents)
