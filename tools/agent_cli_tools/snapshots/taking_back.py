"""Undo the changes of a run, without the files that another program changed since."""

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from agent_cli.contracts.errors import AgentCliError
from agent_cli.contracts.file_changes import PlannedUndo, TakenBack, is_own_run
from agent_cli.contracts.wording import escaped, first_named
from agent_cli.system.fixed_paths import directory_at, open_file
from agent_cli.system.logger import logger
from agent_cli.undo.logs import CommandLog, drop_kept, is_running
from agent_cli.undo.reversal import (
    UndoOutcome,
    carry_out,
    forget_plan,
    has_plan,
    header_of,
    write_plan,
)
from agent_cli_tools.atomic_write import write_atomic
from agent_cli_tools.session_resources import ModelListener
from agent_cli_tools.snapshots.changes import ChangeSpan, RunChanges, commands_since
from agent_cli_tools.snapshots.commands import edits_of, extent, fates, lost_files, steps_of
from agent_cli_tools.snapshots.contents import ContentStore, content_of, is_large
from agent_cli_tools.snapshots.division import Division, divide, kept_files, part_of
from agent_cli_tools.snapshots.journal import Journal

_COMMANDS_MAX: Final = 3
_LISTED_MAX: Final = 50
_log = logger(__name__)


def take_back(
    journal: Journal, store: Path, *, but_own: bool = False, in_part: bool = False
) -> TakenBack:
    """Undo the last run that changed files and is not undone yet.

    *store* is the folder with the records of all sessions, which tell who else changed a file.
    *but_own* leaves out what commands that the user typed, or hooks alone, changed. *in_part* keeps
    files that changed since, and takes back the others; the rest stays recorded as a run of its
    own. An undo that stopped goes on first, and no other begins.

    Raises:
        AgentCliError: There is none; files changed since, and nothing was done; or a write failed
            midway, and a second attempt continues there.
    """
    if stopped := _stopped(journal):
        part, logs = _planned_part(journal, stopped)
        return _go_on(journal, stopped, part, logs)
    run, division = _next_undo(journal, store, but_own=but_own)
    if division.kept and not in_part:
        raise _changed_too(division.changed, journal, store)
    kept = _notes(division.kept, journal, store)
    if division.is_logged:
        taken = _take_back_all(journal, run, division)
    else:
        taken = _take_back_edits(journal, run, division)
    return replace(taken, kept=kept)


def planned_undo(journal: Journal, store: Path, *, but_own: bool = False) -> PlannedUndo:
    """Return the undo that `take_back` would do; a part, if files would be kept.

    Raises:
        AgentCliError: It would refuse.
    """
    if stopped := _stopped(journal):
        stopped, logs = _planned_part(journal, stopped)
        edits, kept = edits_of(stopped.changes, logs), dict[Path, str]()
    else:
        _run, division = _next_undo(journal, store, but_own=but_own)
        logs, edits = division.logs, division.edits
        stopped, kept = division.part, _notes(division.kept, journal, store)
        if not division.is_logged:
            paths = {span.path for span in division.todo}
            edits = [edit for edit in edits if edit.path in paths]
    files, size = extent(edits, logs, journal.contents)
    return PlannedUndo(
        *([log.command for log in logs], len(stopped.changes), files, size), kept=kept
    )


def undoable_runs(journal: Journal) -> list[RunChanges]:
    """Return the runs that an undo may take back, oldest first.

    Not the rest of a run of which, by what others changed, there is nothing to take back.
    """
    standing = (run for run in journal.runs if journal.stands(run))
    return [run for run in standing if not run.is_rest or not divide(journal, run).is_empty]


def _next_undo(journal: Journal, store: Path, *, but_own: bool) -> tuple[RunChanges, Division]:
    """Return the run that the next undo takes back, and which part of it.

    Raises:
        AgentCliError: There is none, or nothing of it can be undone.
    """
    run = _last_standing(journal, but_own=but_own)
    running = (log for log in journal.logs_of(run) if is_running(log.folder))
    if log := next(running, None):
        raise AgentCliError(f"nothing was undone, because `{log.command}` still runs: end it first")
    division = divide(journal, run)
    if division.is_refused:
        raise _changed_too(division.changed, journal, store)
    if not division.is_logged:
        _refuse_large(division.todo, division.now)
    befores = division.edits if division.is_logged else division.todo
    for each in befores:
        if each.before is not None and journal.contents.get(each.before) is None:
            raise _not_kept(each.path)
    return run, division


def _take_back_edits(journal: Journal, run: RunChanges, division: Division) -> TakenBack:
    """Undo a run without logs of commands."""
    todo, commands = division.todo, commands_since(run, journal.runs)
    contents = _contents(todo, journal.contents)
    for span in todo:
        _restore(span, contents)
    for folder in reversed([each for change in division.part.changes for each in change.made]):
        with contextlib.suppress(OSError):  # gone already, or not empty any more
            folder.rmdir()
    with contextlib.suppress(OSError, ValueError):  # remembered at least until the program ends
        journal.mark_taken_back(run.id, division.left)
    return TakenBack(
        run.id,
        [span.path for span in todo if span.before is not None],
        [span.path for span in todo if span.before is None],
        commands,
    )


def _last_standing(journal: Journal, *, but_own: bool) -> RunChanges:
    standing = [
        run
        for run in undoable_runs(journal)
        if not (but_own and (is_own_run(run.id) or journal.is_by_hooks(run)))
    ]
    if not standing:
        why = "what the agent changed in this session is undone already"
        if any(journal.stands(run) and run.is_rest for run in journal.runs):
            why += ", but for files that changed since; /diff shows them"
        by_agent = (run for run in journal.runs if not is_own_run(run.id))
        if not any(run.changes or journal.logs_of(run) for run in by_agent):
            where = "of the workspace" if journal.worktrees else "in this session"
            why = f"the agent's tools changed no file {where}"
        elsewhere = _in_worktrees(journal.worktrees)
        raise AgentCliError(f"nothing to undo: {why}{elsewhere}{_ran(journal.runs)}")
    return standing[-1]


def finish(journal: Journal) -> None:
    """Finish an undo that was interrupted after its plan was complete.

    Raises:
        OSError: It cannot go on.
    """
    with contextlib.suppress(OSError):  # nothing was recorded yet
        journal.hold()
    journal.read()
    if run := _stopped(journal):
        outcome = carry_out(journal.plan_folder)
        _close(journal, run, _planned_part(journal, run)[1], outcome)
        faults = f"; not restored: {_listed(outcome.faults)}" if outcome.faults else ""
        _log.warning("undo finished", sentence=f"an undo that had stopped is finished now{faults}")


def _take_back_all(journal: Journal, run: RunChanges, division: Division) -> TakenBack:
    """Undo a run with commands: what they and the tools changed, the last change first."""
    steps = steps_of(division.edits, division.logs, journal.contents)
    header = {"run": run.id, "left": "\0".join(sorted(division.left))}
    try:
        write_plan(journal.plan_folder, steps, header)
    except OSError as error:
        raise AgentCliError(f"nothing was undone: {error.strerror}") from error
    return _go_on(journal, run, division.part, division.logs, division.of_hooks, is_new=True)


def _planned_left(journal: Journal) -> frozenset[str]:
    """Return the paths that the undo with a plan leaves."""
    return frozenset(filter(None, header_of(journal.plan_folder).get("left", "").split("\0")))


def _planned_part(journal: Journal, run: RunChanges) -> tuple[RunChanges, Sequence[CommandLog]]:
    """Return the changes of its run that the undo with a plan takes back."""
    return part_of(run, journal.logs_of(run), _planned_left(journal))


def _stopped(journal: Journal) -> RunChanges | None:
    """Return the run whose undo has begun, and has not ended."""
    folder = journal.plan_folder
    if not has_plan(folder):
        return None
    run = journal.run(header_of(folder)["run"])
    if not run.taken_back:
        return run
    with contextlib.suppress(OSError, ValueError):  # only its kept files were in the way
        _close(journal, run, journal.logs_of(run), carry_out(folder))
    return None


def _go_on(
    journal: Journal,
    run: RunChanges,
    part: RunChanges,
    logs: Sequence[CommandLog],
    of_hooks: Sequence[str] = (),
    *,
    is_new: bool = False,
) -> TakenBack:
    """Carry out the plan of an undo of *part*, from its beginning or from where it stopped."""
    edits = edits_of(part.changes, logs)
    restored, deleted = fates(edits, logs)
    all_logs, commands = journal.logs_of(run), commands_since(run, journal.runs)
    kept = kept_files(edits_of(run.changes, all_logs), all_logs, _planned_left(journal))
    try:
        outcome = carry_out(journal.plan_folder, is_new=is_new)
    except OSError as error:
        raise AgentCliError(
            f"the undo stopped: {error.strerror}; /undo goes on from there"
        ) from error
    faults = [*outcome.faults, *lost_files(edits, logs)]
    faults += [f"{path}: a hook made or changed it, and it changed since" for path in of_hooks]
    with contextlib.suppress(OSError, ValueError):
        _close(journal, run, logs, outcome)
    return TakenBack(
        run.id,
        [path for path in restored if path not in outcome.failed],
        [path for path in deleted if path not in outcome.failed],
        commands,
        undone=[log.command for log in logs],
        faults=faults,
        kept=kept,
    )


def _close(
    journal: Journal, run: RunChanges, logs: Sequence[CommandLog], outcome: UndoOutcome
) -> None:
    """Record an undo as done."""
    if not run.taken_back:
        journal.mark_taken_back(run.id, _planned_left(journal))
    kept = outcome.kept | journal.kept_for_others(journal.run(run.id))
    for log in logs:
        drop_kept(log.folder, kept)
    forget_plan(journal.plan_folder)


def _not_kept(path: Path) -> AgentCliError:
    return AgentCliError(
        f"nothing was undone: what {path} held before was not kept, because it"
        " was too much, or could not be written"
    )


def _in_worktrees(paths: Sequence[Path]) -> str:
    """Return the note about what agents changed in git worktrees of their own."""
    if not paths:
        return ""
    listed = _listed([*map(str, paths)])
    return f"; what agents changed in git worktrees of their own stays: {listed}"


def _ran(runs: Sequence[RunChanges]) -> str:
    """Return the note about commands, whose changes are not recorded."""
    commands = [command for run in runs for command in run.commands]
    if not commands:
        return ""
    shown = "; ".join(commands[-_COMMANDS_MAX:])
    more = f" and {len(commands) - _COMMANDS_MAX} more" if len(commands) > _COMMANDS_MAX else ""
    return (
        f". Commands ran, and what they changed is not recorded, so it cannot be undone: {shown}"
        f"{more}; version control may show it"
    )


def _changed_too(paths: Sequence[str], journal: Journal, store: Path) -> AgentCliError:
    """Return the error for files that others changed, with the session that did if it is known."""
    notes = _notes(dict.fromkeys(map(Path, paths), ""), journal, store)
    named = [f"{path} ({note})" if note else str(path) for path, note in notes.items()]
    return AgentCliError(
        "nothing was undone, because somebody changed these files too:"
        f" {_listed(named)}; /diff run shows what there is to undo by hand, and"
        " `agent-cli undo restore FILE` brings the version before the last change back"
    )


def _listed(names: Sequence[str]) -> str:
    return first_named(names, _LISTED_MAX)


def _notes(kept: Mapping[Path, str], journal: Journal, store: Path) -> dict[Path, str]:
    """Return files that stay with a note: the session that changed one, or the folder that went."""
    if not kept:
        return {}
    from agent_cli_tools.snapshots.kept_versions import changed_by  # rare

    authors = dict[str, str]()
    with contextlib.suppress(OSError):
        authors = changed_by([*map(str, kept)], store, session=journal.folder.name)
    return {
        path: note or authors.get(str(path)) or _gone_folder(path) for path, note in kept.items()
    }


def _gone_folder(path: Path) -> str:
    """Return a note on the folder of *path* that was moved or deleted as a whole, or ""."""
    gone = [folder for folder in path.parents if not os.path.lexists(folder)]
    return f"{gone[-1]} was moved or deleted" if gone else ""


def _refuse_large(todo: Sequence[ChangeSpan], now: Mapping[Path, str | None]) -> None:
    """Refuse to replace a file whose current content is too large to be compared with."""
    if large := [str(span.path) for span in todo if span.before and is_large(now[span.path])]:
        raise AgentCliError(
            f"nothing was undone, because these files are too large now: {', '.join(large)};"
            " /diff run shows what there is to undo by hand"
        )


def _contents(todo: Sequence[ChangeSpan], kept: ContentStore) -> dict[str, bytes]:
    """Read the stored contents by digest, before any file is touched."""
    contents: dict[str, bytes] = {}
    for span in todo:
        if span.before is None:
            continue
        data = kept.get(span.before)
        if data is None:
            raise _not_kept(span.path)
        contents[span.before] = data
    return contents


def _restore(span: ChangeSpan, contents: dict[str, bytes]) -> None:
    """Restore the earlier content of one file.

    Raises:
        AgentCliError: It failed; the file is unchanged.
    """
    try:
        if span.before is None:
            with directory_at(span.path.parent) as dir_fd:
                os.unlink(span.path.name, dir_fd=dir_fd)
            return
        write_atomic(span.path, contents[span.before], before=content_of(span.path))
        if span.mode is not None:
            with os.fdopen(open_file(span.path, os.O_RDONLY)) as file:
                os.fchmod(file.fileno(), span.mode)
    except OSError as error:
        raise AgentCliError(
            f"{span.path} could not be put back: {error.strerror}; what was done so far stands,"
            " and /undo goes on from there"
        ) from error


def tell_all(journal: Journal, turn: ModelListener) -> None:
    """Tell the model once of each run that was undone."""
    for run in [run for run in journal.runs if run.taken_back and not run.is_reported]:
        turn.tell_model(undo_note(journal, run))
        journal.mark_reported(run.id)


def tell_new(journal: Journal, known: set[str] | None, turn: ModelListener) -> set[str]:
    """Tell the model of undone runs that are not *known*; return the ids of all.

    The first time, when *known* is None, nothing is told."""
    undone = {run.id: run for run in journal.runs if run.taken_back}
    for id, run in undone.items():
        if known is not None and id not in known:
            turn.tell_model(undo_note(journal, run))
    return {*undone}


def undo_note(journal: Journal, run: RunChanges) -> str:
    """Return the note for the model about a run that was undone."""
    logs = journal.logs_of(run)
    was_there, was_not = fates(edits_of(run.changes, logs), logs)
    # The rest of a name must not read as words of the user.
    restored, deleted = ([escaped(str(each)) for each in paths] for paths in (was_there, was_not))
    what = "changes you made to files earlier in this conversation"
    if is_own_run(run.id):
        what = "what a command of their own had changed"
    lines = [f"[The user took back {what}.]"]
    if restored:
        lines.append(f"These files hold again what they held before: {_listed(restored)}.")
    if deleted:
        lines.append(f"These files, which you had made, are gone: {_listed(deleted)}.")
    if run.left:
        lines.append("Your other changes of then stay, because those files changed since.")
    lines.append("Read them again before you change them; do not redo the changes unasked.")
    return "\n".join(lines)
