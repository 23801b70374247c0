"""The files the agent changed: values, and the port to their record."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from agent_cli.system.records import dataclass, field

_OWN = "!"
_PART = "~"


def own_run(prompt_id: str, token: str) -> str:
    """Return the id of the run of a command that the user typed, behind the prompt *prompt_id*."""
    return f"{prompt_id}{_OWN}{token}"


def is_own_run(run_id: str) -> bool:
    """Return whether a run is a command that the user typed."""
    return _OWN in run_id


def part_of_run(run_id: str, number: int) -> str:
    """Return the id of a run's further part: changes that an undo left, or that came after it."""
    return f"{run_id}{_PART}{number}" if number else run_id


def whole_run(run_id: str) -> str:
    """Return the id of the run that *run_id*, perhaps a part, belongs to."""
    return run_id.partition(_PART)[0]


def prompt_of_run(run_id: str) -> str:
    """Return the prompt of a run, or before a command that the user typed; "" for none."""
    return run_id.partition(_OWN)[0].partition(_PART)[0]


@dataclass(frozen=True, slots=True)
class TakenBack:
    """The result of undoing a run's changes.

    Attributes:
        run_id: The id of the prompt that started the run, or of `own_run` or `part_of_run`.
        restored: Files that have their earlier content again.
        deleted: Files that the run had created.
        commands: Commands run during the run or since; their changes are not recorded.
        undone: Commands of the run whose changes were undone.
        faults: A sentence about each file that could not be restored.
        kept: Files that changed since and stay as they are, each with a note on why, or "".
    """

    run_id: str
    restored: Sequence[Path]
    deleted: Sequence[Path]
    commands: Sequence[str]
    undone: Sequence[str] = ()
    faults: Sequence[str] = ()
    kept: Mapping[Path, str] = field(default_factory=dict[Path, str])


@dataclass(frozen=True, slots=True)
class PlannedUndo:
    """The changes that an undo of the last run will make.

    Attributes:
        commands: The commands whose changes go back.
        edits: How many changes of tools go back.
        files: How many files are restored or deleted; a renamed one is one.
        bytes: The sizes of these files in all: before the run, or now if the run made the file.
        kept: Files that changed since and would stay, each with a note on who changed it, or "".
    """

    commands: Sequence[str]
    edits: int
    files: int
    bytes: int
    kept: Mapping[Path, str] = field(default_factory=dict[Path, str])


@dataclass(frozen=True, slots=True)
class Difference:
    """A file that differs from what it was before the agent changed it.

    Attributes:
        path: Absolute.
        kind: "new", "deleted" or "changed".
        diff: A unified diff without file names; "" where `note` says why there is none.
        added: Number of lines.
        removed: Number of lines.
        note: A remark for the user, or "": another program changed it too, it is binary, ...
        shown: `diff` for the screen: long lines are cut around what differs in them.
        is_empty: It is a new file without content, so there is nothing to compare.
    """

    path: Path
    kind: str
    diff: str
    added: int = 0
    removed: int = 0
    note: str = ""
    shown: str = ""
    is_empty: bool = False


class FileChangesPort(Protocol):
    """The record of changes; reading it may take a moment: call it in a thread."""

    def differences(self, *, last_run: bool = False) -> Sequence[Difference]:
        """Return the files that the session, or its last run, left different.

        Raises:
            AgentCliError: The record of changes cannot be read.
        """
        ...
