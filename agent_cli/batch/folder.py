"""The folder of a batch: its results, and the state that a restarted batch continues from.

    RESULTS.jsonl       a line for each task that has ended, in any order
    tasks/ID/N/         the files of run N of a task
    worktrees/ID.N      its worktree, while it runs or where it holds changes

The state lies in the user's state folder, because a repository may bring such a folder; the file
`state` here says under which word:

    batches/WORD/attempts.jsonl     a line for each run, written before it starts
    batches/WORD/retried.jsonl      a line for each result taken back, to run its task again
    batches/WORD/message-batches.jsonl
                                    a line for each Message Batch: its runs, then also its id

A run is finished once its result.json exists and does not say "aborted". A batch that is killed
between that file and the line in RESULTS.jsonl therefore finds the result when it is restarted.
"""

import errno
import fcntl
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Self

from agent_cli.batch import PROMPT, RESULT, STDERR
from agent_cli.batch.tasks import ID, Task
from agent_cli.contracts.errors import AgentCliError, UsageError
from agent_cli.contracts.timeline import Json
from agent_cli.system import paths
from agent_cli.system.authorship import refuse_strangers_link
from agent_cli.system.fixed_paths import directory_at
from agent_cli.system.json_text import json_object
from agent_cli.system.paths import private_dir, real_path
from agent_cli.system.private_files import append_all, release, write_private
from agent_cli.system.records import dataclass

RESULTS: Final = "RESULTS.jsonl"
_ATTEMPTS: Final = "attempts.jsonl"
_RETRIED: Final = "retried.jsonl"
_API: Final = "message-batches.jsonl"
_NAME: Final = "state"
_NAME_CHARS: Final = 32
_WORD: Final = re.compile(f"[0-9a-f]{{{_NAME_CHARS}}}")
_LOCK: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
# Opening a named pipe in the place of a file must not wait for its other side.
_SAFE: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_APPENDED: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT | _SAFE
_COMMIT: Final = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})?")


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


def state_folder(path: Path) -> Path | None:
    """Return the folder of the state of the batch in *path*, the user's own; None without one.

    The batch names it by a random word, so that whoever brings a folder cannot bring a state.
    """
    try:
        with os.fdopen(os.open(path / _NAME, os.O_RDONLY | _SAFE)) as file:
            name = file.read(_NAME_CHARS + 1)
    except (OSError, ValueError):
        return None
    found = paths.state_dir() / "batches" / name
    return found if _WORD.fullmatch(name) and found.is_dir() else None


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
        self.path = real_path(path.absolute())
        try:
            refuse_strangers_link(path)
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.mkdir(mode=0o700, exist_ok=True)
            self._lock = os.open(self.path / "lock", _LOCK, 0o600)
        except FileExistsError as error:
            raise UsageError(f"{self.path} is a file: choose another --output-dir") from error
        except OSError as error:
            raise UsageError(f"{self.path} cannot be used: {error.strerror}") from error
        try:
            self._take_lock()
            write_private(self.path / ".gitignore", b"*\n")
            self._state = state_folder(self.path) or self._begun()
            # The last run of a task whose result was taken back.
            self._retried = {str(e["id"]): int(e.get("attempt", 0)) for e in self._lines(_RETRIED)}
            results = {str(each["id"]): each for each in self._lines(RESULTS)}
            self.results = {id: each for id, each in results.items() if not self._is_back(each)}
            if len(self.results) < len(results):  # killed before it was rewritten
                self._rewrite_results()
            self.attempts = [_attempt(each) for each in self._lines(_ATTEMPTS)]
            self._runs = Counter(each.id for each in self.attempts)
        except (TypeError, ValueError) as error:
            release(self._lock)
            message = f"{self._file(_ATTEMPTS)} is of another version: choose another --output-dir"
            raise UsageError(message) from error
        except OSError as error:
            release(self._lock)
            raise UsageError(f"{self.path} cannot be used: {error.strerror}") from error
        except BaseException:
            release(self._lock)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_failure: object) -> None:
        release(self._lock)

    def check(self, tasks: Sequence[Task]) -> None:
        """Check that no task of *tasks* was changed after it was started.

        Raises:
            UsageError: One of them was changed.
        """
        now = {task.id: task for task in tasks}
        for attempt in self.attempts:
            task = now.get(attempt.id)
            checkout = task.checkout if task else None
            repository = str(checkout.repository) if checkout else ""
            if task and (task.fingerprint, repository) != (attempt.fingerprint, attempt.repository):
                raise UsageError(
                    f"task {attempt.id!r} was changed since it was started: give it a new id, or"
                    " choose another --output-dir"
                )

    def take_back_failures(self) -> None:
        """Remove the results of tasks that are not done, so that they start anew.

        Raises:
            AgentCliError: The folder cannot be written.
        """
        for id, result in [*self.results.items()]:
            if result.get("status") != "done":
                last = self.runs_of(id)
                # First: without it, a restart would find the result in the files of the run.
                self._append(_RETRIED, {"id": id, "attempt": last})
                self._retried[id] = last
                del self.results[id]
        self._rewrite_results()

    def runs_of(self, id: str) -> int:
        """Return how many runs the task *id* has had."""
        return self._runs[id]

    def is_taken_back(self, attempt: Attempt) -> bool:
        """Return whether the result of *attempt*, if it has one, counts no longer."""
        return attempt.number <= self._retried.get(attempt.id, 0)

    def begin(self, attempt: Attempt, prompt: str) -> Path:
        """Record that *attempt* starts; return the file of its prompt, beside its other files.

        Raises:
            AgentCliError: The folder cannot be written.
        """
        file = self.files_of(attempt) / PROMPT
        try:
            with directory_at(private_dir(file.parent)):
                pass  # no link took its place
            for left in (RESULT, STDERR):  # by a run that attempts.jsonl no longer lists
                (file.parent / left).unlink(missing_ok=True)
            write_private(file, prompt.encode())
            write_private(file.parent / STDERR, b"")
        except OSError as error:
            raise AgentCliError(f"{file} cannot be written: {error.strerror}") from error
        # Last: what is listed has perhaps cost something.
        self._append(_ATTEMPTS, asdict(attempt))
        self.attempts.append(attempt)
        self._runs[attempt.id] += 1
        return file

    def files_of(self, attempt: Attempt) -> Path:
        """Return the folder of a run's files.

        Raises:
            AgentCliError: A link is there, put by a task's agent or by the folder's author.
        """
        return self._without_links(self.path / "tasks" / attempt.id / str(attempt.number))

    def worktree_of(self, attempt: Attempt) -> Path:
        """Return the path of a run's worktree.

        Raises:
            AgentCliError: As `files_of`.
        """
        return self._without_links(self.path / "worktrees" / f"{attempt.id}.{attempt.number}")

    def _without_links(self, path: Path) -> Path:
        if real_path(path) != path:
            raise AgentCliError(f"{path} leads elsewhere: remove the link, or use --output-dir")
        return path

    def outcome_of(self, attempt: Attempt) -> dict[str, Any] | None:  # Any: JSON
        """Return the content of its result.json; None if there is none."""
        path = self.files_of(attempt) / RESULT
        try:
            return json_object(path.read_bytes()) if path.is_file() else None
        except OSError:
            return None

    def leave_unstarted(self, attempt: Attempt) -> None:
        """Write the outcome of a run that was not started: it is repeated and has cost nothing."""
        outcome = {"type": "app.result", "stop_reason": "aborted", "cost_usd": 0.0}
        # Without the file its whole reservation is counted.
        with suppress(OSError):
            write_private(self.files_of(attempt) / RESULT, json.dumps(outcome).encode())

    def add_result(self, result: dict[str, Json]) -> None:
        """Append the result of a task that has none."""
        id = str(result["id"])
        if id in self.results:
            raise AssertionError(f"{id} has a result already")
        self._append(RESULTS, result)
        self.results[id] = result

    @property
    def api_journal(self) -> Path:
        """The file that says which runs are in which Message Batch."""
        return self._state / _API

    def _begun(self) -> Path:
        """Return a new state, for a folder without results: others would count as this user's."""
        results = self.path / RESULTS
        if results.is_file() and results.stat().st_size:
            raise UsageError(
                f"{results} was not written by a batch of yours on this machine, so nothing in it"
                " counts: move it away, or choose another --output-dir"
            )
        name = os.urandom(_NAME_CHARS // 2).hex()
        state = private_dir(paths.state_dir() / "batches" / name)
        write_private(self.path / _NAME, name.encode())
        return state

    def _file(self, name: str) -> Path:
        return (self._state if name in (_ATTEMPTS, _RETRIED) else self.path) / name

    def _is_back(self, result: dict[str, Json]) -> bool:
        number = result.get("attempts")
        return isinstance(number, int) and number <= self._retried.get(str(result["id"]), 0)

    def _rewrite_results(self) -> None:
        lines = (json.dumps(each, ensure_ascii=False) + "\n" for each in self.results.values())
        path = self.path / RESULTS
        try:
            write_private(path, "".join(lines).encode(errors="replace"))
        except OSError as error:
            raise AgentCliError(f"{path} cannot be written: {error.strerror}") from error

    def _take_lock(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"another batch works in {self.path}: wait for it, or choose another --output-dir"
            ) from error

    def _lines(self, name: str) -> Iterator[dict[str, Any]]:
        """Yield the lines of a file; truncate an unfinished last line, which a crash left."""
        path = self._file(name)
        try:
            if path.is_fifo():
                raise OSError(errno.EINVAL, "it is a named pipe, not a file")
            with os.fdopen(os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC), "r+b") as file:
                whole, _, half = file.read().rpartition(b"\n")
                if half:
                    file.truncate(len(whole) + 1 if whole else 0)
        except FileNotFoundError:
            return
        except OSError as error:
            raise UsageError(f"{path} cannot be used: {error.strerror}") from error
        for number, line in enumerate(whole.split(b"\n") if whole else (), 1):
            found = json_object(line)
            if found is None or "id" not in found:
                raise UsageError(
                    f"{path} line {number} is not a line of a batch: repair it, or choose another"
                    " --output-dir"
                )
            yield found

    def _append(self, name: str, value: dict[str, Any]) -> None:
        line = json.dumps(value, ensure_ascii=False).encode(errors="replace")
        append_line(self._file(name), line)


def append_line(path: Path, line: bytes) -> None:
    """Append *line* and its end to the file *path*: all of it, or nothing.

    A half line that a crash left there keeps its place, and *line* begins one of its own.

    Raises:
        AgentCliError: It is not written.
    """
    try:
        with os.fdopen(os.open(path, _APPENDED, 0o600), "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            last = os.pread(file.fileno(), 1, max(0, size - 1))  # raises for a named pipe
            append_all(file.fileno(), (b"\n" if last not in (b"", b"\n") else b"") + line + b"\n")
    except OSError as error:
        raise AgentCliError(f"{path} cannot be written: {error.strerror}") from error


def _attempt(line: dict[str, Any]) -> Attempt:
    """Return the run that a line of the state tells of.

    Raises:
        TypeError: It has other fields.
        ValueError: A field cannot be one that was written: its values become names of folders.
    """
    found = Attempt(**line)
    numbers = (found.number, found.reserved)
    texts = (found.id, found.fingerprint, found.repository, found.commit)
    if not (
        all(type(each) is int for each in numbers)
        and all(type(each) is str for each in texts)
        and found.number >= 1
        and found.reserved >= 0
        and ID.fullmatch(found.id)
        and _COMMIT.fullmatch(found.commit)
    ):
        raise ValueError(f"not a run: {line}")
    return found
