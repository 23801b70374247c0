"""The folder of a batch: its results, and the state that a restarted batch continues from.

    RESULTS.jsonl       a line for each task that has ended, in any order
    attempts.jsonl      a line for each run, written before it starts
    tasks/ID/N/         the files of run N of a task
    worktrees/ID.N      its worktree, while it runs or where it holds changes

A run is finished once its result.json exists and does not say "aborted". A batch that is killed
between that file and the line in RESULTS.jsonl therefore finds the result when it is restarted.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Self

from agent_cli.batch.ports import RESULT, STDERR
from agent_cli.batch.tasks import Task
from agent_cli.contracts.errors import AgentCliError, UsageError
from agent_cli.contracts.timeline import Json
from agent_cli.system.shapes import is_object

RESULTS: Final = "RESULTS.jsonl"
_ATTEMPTS: Final = "attempts.jsonl"
_PROMPT: Final = "prompt.md"


@dataclass(frozen=True, slots=True)
class Attempt:
    """A run that was started.

    Attributes:
        id: The id of its task.
        number: From 1.
        fingerprint: The fingerprint of the task when it was started.
        reserved: Micro-dollars of the budget that were reserved for it.
        repository: The repository of its worktree, or "".
        commit: The commit of its worktree, or "".
    """

    id: str
    number: int
    fingerprint: str
    reserved: int = 0
    repository: str = ""
    commit: str = ""


class BatchFolder:
    """The state of a batch on disk; one process at a time has it open.

    Attributes:
        path: The folder, absolute.
        results: Results by task id.
        attempts: The runs of all tasks in starting order.
    """

    def __init__(self, path: Path) -> None:
        """Open the folder, creating it if necessary.

        Raises:
            UsageError: It cannot be used, e.g. because another batch works in it.
        """
        self.path = path.absolute()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UsageError(f"{self.path} cannot be used: {error.strerror}") from error
        try:
            self._take_lock()
            (self.path / ".gitignore").write_text("*\n")
            self.results = {str(each["id"]): each for each in self._lines(RESULTS)}
            self.attempts = [Attempt(**each) for each in self._lines(_ATTEMPTS)]
        except TypeError as error:
            os.close(self._lock)
            told = f"{self.path / _ATTEMPTS} is of another version: choose another --output-dir"
            raise UsageError(told) from error
        except BaseException:
            os.close(self._lock)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_failure: object) -> None:
        os.close(self._lock)

    def check(self, tasks: Sequence[Task]) -> None:
        """Check that no task of *tasks* was changed after it was started.

        Raises:
            UsageError: One of them was changed.
        """
        now = {task.id: task.fingerprint for task in tasks}
        for attempt in self.attempts:
            if now.get(attempt.id, attempt.fingerprint) != attempt.fingerprint:
                raise UsageError(
                    f"task {attempt.id!r} was changed since it was started: give it a new id, or"
                    " choose another --output-dir"
                )

    def begin(self, attempt: Attempt, prompt: str) -> Path:
        """Record that *attempt* starts; return the file of its prompt, beside its other files.

        Raises:
            AgentCliError: The folder cannot be written.
        """
        file = self.files_of(attempt) / _PROMPT
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(prompt, encoding="utf-8")
            for left in (RESULT, STDERR):  # by a run that attempts.jsonl no longer lists
                (file.parent / left).unlink(missing_ok=True)
        except OSError as error:
            raise AgentCliError(f"{file} cannot be written: {error.strerror}") from error
        # Last: what is listed has perhaps cost something.
        self._append(_ATTEMPTS, asdict(attempt))
        self.attempts.append(attempt)
        return file

    def files_of(self, attempt: Attempt) -> Path:
        """Return the folder of a run's files."""
        return self.path / "tasks" / attempt.id / str(attempt.number)

    def worktree_of(self, attempt: Attempt) -> Path:
        """Return the path of a run's worktree."""
        return self.path / "worktrees" / f"{attempt.id}.{attempt.number}"

    def outcome_of(self, attempt: Attempt) -> dict[str, Any] | None:  # Any: JSON
        """Return the content of its result.json; None if there is none."""
        try:
            found = json.loads((self.files_of(attempt) / RESULT).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return found if is_object(found) else None

    def leave_unstarted(self, attempt: Attempt) -> None:
        """Write the outcome of a run that was not started: it is repeated and has cost nothing."""
        outcome = {"type": "app.result", "stop_reason": "aborted", "cost_usd": 0.0}
        # Without the file its whole reservation is counted.
        with suppress(OSError):
            (self.files_of(attempt) / RESULT).write_text(json.dumps(outcome), encoding="utf-8")

    def add_result(self, result: dict[str, Json]) -> None:
        """Append the result of a task that has none."""
        id = str(result["id"])
        if id in self.results:
            raise AssertionError(f"{id} has a result already")
        self._append(RESULTS, result)
        self.results[id] = result

    def _take_lock(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"another batch works in {self.path}: wait for it, or choose another --output-dir"
            ) from error

    def _lines(self, name: str) -> Iterator[dict[str, Any]]:
        """Yield the lines of a file; truncate an unfinished last line, which a crash left."""
        path = self.path / name
        try:
            with path.open("r+b") as file:
                whole, _, half = file.read().rpartition(b"\n")
                if half:
                    file.truncate(len(whole) + 1 if whole else 0)
        except FileNotFoundError:
            return
        except OSError as error:
            raise UsageError(f"{path} cannot be used: {error.strerror}") from error
        for number, line in enumerate(whole.split(b"\n") if whole else (), 1):
            try:
                found = json.loads(line)
            except ValueError:
                found = None
            if not isinstance(found, dict) or "id" not in found:
                raise UsageError(
                    f"{path} line {number} is not a line of a batch: repair it, or choose another"
                    " --output-dir"
                )
            yield found

    def _append(self, name: str, value: dict[str, Any]) -> None:
        line = json.dumps(value, ensure_ascii=False).encode(errors="replace") + b"\n"
        path = self.path / name
        try:
            with path.open("ab", buffering=0) as file:
                size = file.tell()
                written = file.write(line)
                if written != len(line):  # or the next line would continue this one
                    file.truncate(size)
                os.fsync(file.fileno())
        except OSError as error:
            raise AgentCliError(f"{path} cannot be written: {error.strerror}") from error
        if written != len(line):
            raise AgentCliError(f"{path} cannot be written: the disk is full")
