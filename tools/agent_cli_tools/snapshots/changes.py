"""Changes of files: one, those of a run, and all of one file; how an undo divides a run.

Knows nothing of how they are stored.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from agent_cli.system.records import dataclass, field


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one file. `before` and `after` are digests; None is no file.

    Attributes:
        mode: Its permission bits before; None if there was no file.
        made: Directories that were made for it, the outermost first.
        at_ns: When, in nanoseconds of the clock on the wall; 0 in older records.
        found_ns: When the file was changed last before; 0 if unknown.
    """

    path: Path
    before: str | None
    after: str | None
    mode: int | None = None
    made: tuple[Path, ...] = ()
    at_ns: int = 0
    found_ns: int = 0


@dataclass(slots=True)
class RunChanges:
    """The changes of one run, in order, and its `commands`, whose changes are unknown.

    `logs` are the names of the logs of commands, if their keepers wrote any, and the commands;
    `hook_logs` those of hooks.
    `is_reported` is True once the model knows that its changes were `taken_back`.
    `only` are the paths of a rest, which an undo left; `left` those that an undo of this run left.
    """

    id: str
    changes: list[Change] = field(default_factory=list[Change])
    commands: list[str] = field(default_factory=list[str])
    logs: dict[str, str] = field(default_factory=dict[str, str])
    hook_logs: set[str] = field(default_factory=set[str])
    taken_back: bool = False
    is_reported: bool = False
    only: frozenset[str] | None = None
    left: frozenset[str] = frozenset()

    @property
    def is_rest(self) -> bool:
        """Whether it is what an undo left of a run."""
        return self.only is not None

    def holds(self, path: str) -> bool:
        """Return whether this part of a divided run holds the changes of *path*."""
        return path not in self.left and (self.only is None or path in self.only)


def divided(
    run: RunChanges, left: frozenset[str], *, rest_id: str = ""
) -> tuple[RunChanges, RunChanges]:
    """Return the changes that an undo of a run takes back, and its changes to the paths *left*."""
    made = [folder for change in run.changes for folder in change.made]
    part = replace(
        run,
        changes=[
            replace(change, made=tuple(each for each in change.made if str(each) not in left))
            for change in run.changes
            if str(change.path) not in left
        ],
        left=run.left | left,
    )
    rest = RunChanges(
        rest_id,
        [
            replace(change, made=tuple(each for each in made if each in change.path.parents))
            for change in run.changes
            if str(change.path) in left
        ],
        logs=run.logs,
        hook_logs=run.hook_logs,
        only=left,
    )
    return part, rest


@dataclass(frozen=True, slots=True)
class ChangeSpan:
    """Changes of tools to a file, from the first to the last; digests, None is no file.

    Attributes:
        mode: Its permission bits at first.
        made: Directories that were made for it, the outermost first.
        began_ns: When the first change was made, as `Change.at_ns`.
        at_ns: When the last one was.
        unbroken: Whether each change began with the previous result, without changes by others.
    """

    path: Path
    before: str | None
    after: str | None
    mode: int | None
    made: tuple[Path, ...]
    began_ns: int
    at_ns: int
    unbroken: bool = True


def extended(span: ChangeSpan | None, change: Change) -> ChangeSpan:
    """Return *span* with a later change of its file; None begins one."""
    if span is None:
        return ChangeSpan(
            path=change.path,
            before=change.before,
            after=change.after,
            mode=change.mode,
            made=change.made,
            began_ns=change.at_ns,
            at_ns=change.at_ns,
        )
    return replace(
        span,
        after=change.after,
        made=(*span.made, *change.made),
        at_ns=change.at_ns,
        unbroken=span.unbroken and span.after == change.before,
    )


def spans(changes: Iterable[Change]) -> list[ChangeSpan]:
    """Return one span for each file, in the order of their first changes."""
    found: dict[Path, ChangeSpan] = {}
    for change in changes:
        found[change.path] = extended(found.get(change.path), change)
    return [*found.values()]


def commands_since(run: RunChanges, runs: Sequence[RunChanges]) -> list[str]:
    """Return the commands during a run or since, whose changes are not recorded."""
    later = runs[runs.index(run) :]
    return [
        command for each in later if not each.taken_back or each is run for command in each.commands
    ]
