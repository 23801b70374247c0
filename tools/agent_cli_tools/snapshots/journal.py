"""The record of changes to files, one JSON object per line.

    {"run": id, "change": {"path": ..., "before": digest, "after": digest, "mode": 420}}
    {"run": id, "ran": "npm install"}    {"run": id, "log": "3f", "ran": "rm -rf build"}
    {"run": id, "log": "40", "ran": "ruff format .", "by_hook": true}
    {"run": id, "taken_back": true}      {"run": id, "told": true}
    {"run": id, "worktree": path}        {"run": id, "taken_back": true, "left": [path, ...]}

Only its owner can read it. A line cut off by a crash is skipped. A log belongs to the run that its
last line names. The file is locked as long as the session that writes it is open.
"""

import contextlib
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Final
from weakref import finalize

from pydantic import BaseModel

from agent_cli.contracts.file_changes import own_run, part_of_run, whole_run
from agent_cli.contracts.wording import one_line
from agent_cli.system.fixed_paths import write_all
from agent_cli.system.paths import private_dir
from agent_cli.system.private_files import try_lock
from agent_cli.undo.generated import is_cache
from agent_cli.undo.logs import CommandLog, is_running, narrowed, read_log, with_changes
from agent_cli.undo.records import LOG
from agent_cli_tools.snapshots.changes import Change, RunChanges, divided
from agent_cli_tools.snapshots.contents import ContentStore

CHANGES: Final = "changes.jsonl"
_COMMAND_CHARS_MAX: Final = 80


class _Line(BaseModel):
    """One line of the file."""

    run: str
    change: Change | None = None
    ran: str = ""
    log: str = ""
    by_hook: bool = False
    taken_back: bool = False
    told: bool = False
    worktree: str = ""
    left: list[Path] = []


class Journal:
    """The changes of one session. Lines that could not be written are written as soon as possible.

    Methods that add a line raise OSError or ValueError if it cannot be written.

    Attributes:
        folder: The folder of the session's record, named after the session.
        contents: The earlier contents of files.
        paths: Every changed file, in the order of first changes.
    """

    def __init__(self, folder: Path) -> None:
        """Read nothing yet; no file is created before the first record."""
        self.contents = ContentStore(folder / "before")
        self.folder = folder
        self._path = folder / CHANGES
        self._is_read = False
        # A line stays here until it is on disk: if one were lost, /undo would restore only a part
        # of a run and report it as complete.
        self._unsaved: list[_Line] = []
        self._runs: dict[str, RunChanges] = {}
        self._named_logs: set[str] = set()
        self.paths: dict[Path, None] = {}
        self._logs: dict[str, CommandLog] = {}
        self._worktrees: dict[Path, None] = {}
        self._release: finalize[[int], Journal] | None = None

    def hold(self) -> None:
        """Tell other programs that the session is open, until `release`.

        Raises:
            OSError: There is no file yet, or the file system has no locks.
        """
        if self._release:
            return
        descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        self._release = finalize(self, os.close, descriptor)
        try_lock(descriptor)

    def release(self) -> None:
        """Tell other programs that the session is closed."""
        if self._release:
            self._release()
            self._release = None

    def read(self) -> None:
        """Read the file, once.

        Raises:
            OSError: The file exists but cannot be read.
        """
        if self._is_read:
            return
        found = [*_lines(self._path)]
        self._is_read = True
        self._runs, self._named_logs, self.paths = {}, set(), {}
        for line in (*found, *self._unsaved):
            self._apply(line)

    def save(self) -> None:
        """Write the lines that could not be written earlier.

        Raises:
            OSError: They still cannot be written.
        """
        if not self._unsaved:
            return
        self.read()
        private_dir(self._path.parent)
        descriptor = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            while self._unsaved:
                text = _text(self._unsaved[0])
                write_all(descriptor, b"\n" * _is_cut_off(descriptor) + text + b"\n")
                del self._unsaved[0]
        finally:
            os.close(descriptor)
        with contextlib.suppress(OSError):
            self.hold()

    @property
    def runs(self) -> Sequence[RunChanges]:
        """The recorded runs, oldest first."""
        return [*self._runs.values()]

    @property
    def undone(self) -> Sequence[Change]:
        """The changes of tools that were undone."""
        return [change for run in self.runs if run.taken_back for change in run.changes]

    @property
    def worktrees(self) -> Sequence[Path]:
        """The git worktrees that agents worked in, as far as they are still there."""
        return [path for path in self._worktrees if path.is_dir()]

    def run(self, id: str) -> RunChanges:
        """Return the changes of a run so far."""
        return self._runs.get(id) or RunChanges(id)

    def open_run(self, id: str) -> RunChanges:
        """Return the changes of the run *id* that are not undone.

        A run may go on after it was undone, by an agent in the background: what that changes is
        recorded as a further run, or no undo would find it.
        """
        parts = (self.run(part_of_run(id, number)) for number in count())
        return next(run for run in parts if not run.taken_back and not run.is_rest)

    def add(self, run_id: str, change: Change) -> None:
        """Record a change."""
        self._record(_Line(run=self.open_run(run_id).id, change=change))

    def add_worktree(self, run_id: str, path: Path) -> None:
        """Record that an agent works in the git worktree at *path*."""
        self._record(_Line(run=self.open_run(run_id).id, worktree=str(path)))

    def add_command(self, run_id: str, command: str) -> None:
        """Record a command whose changes are unknown."""
        run_id = self.open_run(run_id).id
        self._record(_Line(run=run_id, ran=one_line(command, _COMMAND_CHARS_MAX)))

    def new_log(self, run_id: str, command: str, *, by_hook: bool = False) -> Path:
        """Record that a command begins; return the new folder for its keeper's log."""
        log = secrets.token_hex(8)
        folder = private_dir(self.log_folder(log))
        ran = one_line(command, _COMMAND_CHARS_MAX)
        run_id = self.open_run(run_id).id
        self._record(_Line(run=run_id, log=log, ran=ran, by_hook=by_hook))
        return folder

    def forget_empty(self, folder: Path) -> None:
        """Remove the log in *folder* if it has no changes: most hooks make none.

        Raises:
            OSError: It cannot be read.
        """
        log = read_log(folder)
        if log is None or not log.records:
            shutil.rmtree(folder, ignore_errors=True)

    def new_own_log(self, prompt_id: str, command: str) -> str:
        """Do as `new_log` for a command that the user typed, which is a run of its own."""
        return str(self.new_log(own_run(prompt_id, secrets.token_hex(4)), command))

    def logs_of(self, run: RunChanges, *, since_s: float = 0.0) -> list[CommandLog]:
        """Return the logs of the commands of a run that changed something, in order.

        Logs last written before *since_s* are left out.

        Raises:
            OSError: One cannot be read.
        """
        found = [self._log(name) for name in run.logs if self._written_s(name) >= since_s]
        own = [narrowed(log, run.holds) if run.left or run.is_rest else log for log in found if log]
        return with_changes(own)

    def kept_for_others(self, run: RunChanges) -> set[Path]:
        """Return the kept files in the logs of a run that belong to its other parts.

        Raises:
            OSError: A log cannot be read.
        """
        return {
            log.folder / each.to
            for log in map(self._log, run.logs)
            if log
            for each in log.records
            if each.kind in ("gone", "write") and not run.holds(each.path)
        }

    def stands(self, run: RunChanges) -> bool:
        """Return whether a run changed files, caches of tools aside, and is not undone."""
        if run.taken_back:
            return False
        return bool(run.changes) or any(
            each.kind != "times" and not is_cache(each.path, log.roots)
            for log in self.logs_of(run)
            for each in log.records
        )

    def is_by_hooks(self, run: RunChanges) -> bool:
        """Return whether hooks alone made the changes of a run."""
        logs = {log.folder.name for log in self.logs_of(run)}
        return not run.changes and bool(logs) and logs <= run.hook_logs

    def _log(self, name: str) -> CommandLog | None:
        if name not in self._logs:
            log = read_log(self.log_folder(name))
            if log is None or not log.ended_ns:
                return log  # it may grow
            self._logs[name] = log
        return self._logs[name]

    def _written_s(self, name: str) -> float:
        try:
            return (self.log_folder(name) / LOG).stat().st_mtime
        except OSError:
            return 0.0

    def log_folder(self, log: str) -> Path:
        """Return the folder of a log."""
        return self._path.parent / "commands" / log

    @property
    def plan_folder(self) -> Path:
        """The folder for the plan of an undo."""
        return self._path.parent / "undoing"

    def mark_taken_back(self, run_id: str, left: Iterable[str]) -> None:
        """Record that a run is undone, except for its changes of the paths *left*.

        What its commands that still run change from now on is recorded as a further run.
        """
        paths, run = [Path(path) for path in sorted(left)], self.run(run_id)
        running = [name for name in run.logs if is_running(self.log_folder(name))]
        ran, by_hook = dict(run.logs), frozenset(run.hook_logs)
        self._record(_Line(run=run_id, taken_back=True, left=paths))
        for name in running:
            further = self.open_run(run_id).id
            self._record(_Line(run=further, log=name, ran=ran[name], by_hook=name in by_hook))

    def mark_reported(self, run_id: str) -> None:
        """Record that the model knows of the undo."""
        self._record(_Line(run=run_id, told=True))

    def _apply(self, line: _Line) -> None:
        run = self._runs.setdefault(line.run, RunChanges(line.run))
        if line.change:
            run.changes.append(line.change)
            self.paths.setdefault(line.change.path)
        if line.log:
            if line.log in self._named_logs:
                for each in self._runs.values():
                    each.logs.pop(line.log, None)
            self._named_logs.add(line.log)
            run.logs[line.log] = line.ran
            if line.by_hook:
                run.hook_logs.add(line.log)
        elif line.ran:
            run.commands.append(line.ran)
        if line.worktree:
            self._worktrees[Path(line.worktree)] = None
        if line.left and not run.taken_back:
            run = self._divide(run, frozenset(map(str, line.left)))
        run.taken_back |= line.taken_back
        run.is_reported |= line.told

    def _divide(self, run: RunChanges, left: frozenset[str]) -> RunChanges:
        """Make the rest that an undo left of a run a run of its own; return the other part."""
        ids = (part_of_run(whole_run(run.id), number) for number in count(1))
        rest_id = next(id for id in ids if id not in self._runs)
        part, rest = divided(run, left, rest_id=rest_id)
        parts = {run.id: (part, rest)}
        runs = [each for old in self._runs.values() for each in parts.get(old.id, (old,))]
        self._runs = {each.id: each for each in runs}
        return part

    def _record(self, line: _Line) -> None:
        self._apply(line)
        self._unsaved.append(line)
        self.save()


def copy_journal(folder: Path, to: Path) -> None:
    """Copy the journal in *folder*, if there is one, to a folder that does not exist yet.

    Raises:
        OSError: It cannot be read or written.
    """
    if (folder / CHANGES).exists():
        shutil.copytree(folder, to, copy_function=_copy_file)


def _copy_file(source: str, target: str) -> None:
    # Contents never change, so both may share the files; the journal itself grows.
    if Path(source).name == CHANGES:
        shutil.copy2(source, target)
    else:
        os.link(source, target)


def _text(line: _Line) -> bytes:
    # Not with pydantic: it refuses the escapes that a path needs if it is not UTF-8.
    return json.dumps(line.model_dump(exclude_defaults=True), default=str).encode()


def _lines(path: Path) -> Iterator[_Line]:
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        try:
            yield _Line.model_validate(json.loads(line))
        except ValueError:
            continue  # cut off by a crash; its record is lost


def _is_cut_off(descriptor: int) -> bool:
    """Return whether the last line is incomplete because of a kill during the write."""
    size = os.fstat(descriptor).st_size
    return size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
