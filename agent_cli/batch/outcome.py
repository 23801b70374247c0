"""Build the result of a task from the files of its last run."""

from pathlib import Path
from typing import Any, Final

from agent_cli.batch import PATCH, STDERR
from agent_cli.batch.folder import Attempt, BatchFolder
from agent_cli.batch.tasks import Task
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.wording import in_microdollars
from agent_cli.system.git import GitError
from agent_cli.system.paths import private_dir
from agent_cli.system.private_files import write_private
from agent_cli.system.records import dataclass
from agent_cli.system.stop_signals import STOP_SIGNALS, exit_code_of
from agent_cli.system.worktrees import (
    Worktree,
    add_worktree,
    changes_in,
    commit_of,
    remove_worktree,
)

_STATUS: Final = {0: "done", 3: "approval", 4: "limit"}
_SIGNALLED: Final = frozenset(map(exit_code_of, STOP_SIGNALS))
_STDERR_BYTES: Final = 4_096
_ERROR_CHARS: Final = 500


@dataclass(frozen=True, slots=True)
class _Changes:
    """The patch of a worktree, if any, and the worktree, if it is kept."""

    worktree: Path | None = None
    patch: Path | None = None
    note: str = ""


def is_final(outcome: dict[str, Any] | None) -> bool:
    """Return whether a run has finished; a lost or interrupted run is repeated.

    So is one that the world ended: no key, no network, a server or a disk that fails.
    """
    if outcome is None or outcome.get("stop_reason") == "aborted" or trouble_in(outcome):
        return False
    return outcome.get("exit_code") not in _SIGNALLED  # stopped by a signal at a question


def trouble_in(outcome: dict[str, Any] | None) -> str:
    """Return the part of the world that ended a run, or ""."""
    return str((outcome or {}).get("trouble") or "")


def cost_of(attempt: Attempt, outcome: dict[str, Any] | None) -> int:
    """Return the cost of a run in micro-dollars: its whole reservation if it is unknown."""
    if outcome is None or outcome.get("cost_usd") is None:
        return attempt.reserved
    dollars = float(outcome["cost_usd"]) + float(outcome.get("held_usd", 0))
    return in_microdollars(dollars)


def make_worktree(folder: BatchFolder, attempt: Attempt) -> Path:
    """Check out the commit of a run, and return the path of its worktree. Blocking.

    Raises:
        GitError: The worktree cannot be created.
    """
    repository, path = Path(attempt.repository), folder.worktree_of(attempt)
    try:
        private_dir(path.parent)
    except OSError as error:
        raise GitError(f"{path.parent} cannot be made: {error.strerror}") from error
    return add_worktree(repository, path, attempt.commit).path


def drop_worktree(folder: BatchFolder, attempt: Attempt) -> None:
    """Remove the worktree of a run that is to be repeated. Blocking."""
    path = folder.worktree_of(attempt)
    if path.exists():
        remove_worktree(Worktree(path, Path(attempt.repository), attempt.commit))


def result_of(
    task: Task, folder: BatchFolder, attempt: Attempt, outcome: dict[str, Any] | None, error: str
) -> dict[str, Json]:
    """Return the line for RESULTS.jsonl, and remove a worktree without changes. Blocking.

    Args:
        task: The task.
        folder: The folder of the batch.
        attempt: Its last run.
        outcome: Its result.json; None for a run that was lost.
        error: The reason the run was lost; "" takes the last line of its stderr.
    """
    files = folder.files_of(attempt)
    changes = _changes(folder, attempt)
    known = {name: value for name, value in (outcome or {}).items() if name != "type"}
    status = "lost" if outcome is None else _status(outcome)
    message = error or (_last_line(files / STDERR) if status != "done" else "")
    return {
        "id": task.id,
        "status": status,
        **known,
        **({"error": message} if message else {}),
        "attempts": attempt.number,
        "cwd": str(task.cwd),
        **({"ref": task.checkout.ref, "commit": attempt.commit} if task.checkout else {}),
        **({"worktree": str(changes.worktree)} if changes.worktree else {}),
        **({"patch": str(changes.patch)} if changes.patch else {}),
        **({"worktree_error": changes.note} if changes.note else {}),
        "output_dir": str(files),
    }


def _status(outcome: dict[str, Any]) -> str:
    return _STATUS.get(outcome.get("exit_code", 1), "failed")


def _changes(folder: BatchFolder, attempt: Attempt) -> _Changes:
    path = folder.worktree_of(attempt)
    if not attempt.commit:
        return _Changes()
    if not path.exists():  # it was made on another machine, which sent the patch
        sent = folder.files_of(attempt) / PATCH
        return _Changes(patch=sent if sent.exists() else None)
    worktree = Worktree(path, Path(attempt.repository), attempt.commit)
    try:
        patch = changes_in(worktree)
        if not patch and commit_of(path, "HEAD") == worktree.base:
            remove_worktree(worktree)
            return _Changes()
        file = folder.files_of(attempt) / PATCH
        write_private(file, patch)
    except (GitError, OSError) as error:
        # Keep it: it may hold the only copy of the work.
        return _Changes(path, note=str(error))
    return _Changes(path, file)


def _last_line(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _STDERR_BYTES))
            lines = file.read().decode(errors="replace").split("\n")
    except OSError:
        return ""
    printed = [line.strip() for line in lines if line.strip()]
    return printed[-1][:_ERROR_CHARS] if printed else ""
