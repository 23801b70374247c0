"""Record every change to a file with its earlier content, to undo a run; git plays no part."""

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

from agent_cli.contracts.events import (
    AgentEnd,
    Event,
    PromptOutput,
    PromptStarted,
    PromptStateChanged,
    SessionOpened,
    ToolExecutionEnd,
)
from agent_cli.contracts.file_changes import Difference, PlannedUndo, TakenBack, own_run
from agent_cli.contracts.options import UNDO_KEEP_DAYS
from agent_cli_tools.session_resources import ModelListener
from agent_cli_tools.snapshots.contents import (
    Digests,
    Seen,
    Watch,
    changed_ns_of,
    digest,
    faults_logged,
    keep_content,
    log_folder,
    mode_of,
    seen_now,
)
from agent_cli_tools.snapshots.current import CurrentJournal
from agent_cli_tools.stoppable import unstoppable

if TYPE_CHECKING:
    from agent_cli.system.launching import Watched
    from agent_cli.undo.logs import CommandQuestion
    from agent_cli_tools.snapshots.changes import Change


class Snapshots:
    """The changes of the current session. Subscribe it to the agent; tools notify it of changes.

    A failure in here never stops a tool: the change cannot be undone, and an undo reports that.

    Attributes:
        decide: Answers the question of a running command about what it deletes and overwrites.
        before: Called before a command that may change files; raises ToolError to prevent it.
        of_user: Returns how to keep what a command of the user names, as yet without a folder.
    """

    def __init__(
        self,
        folder: Path,
        *,
        only_reads: Callable[[str], bool],
        is_foreign: Callable[[str], bool] = lambda _tool: False,
        watched: "Callable[[Path, str, int], Watched | None] | None" = None,
        keep_days: int = UNDO_KEEP_DAYS,
        bytes_max: int = 0,
    ) -> None:
        """Record nothing yet.

        Args:
            folder: The folder with the journals of all sessions.
            only_reads: Returns whether a shell command certainly changes nothing.
            is_foreign: Returns whether a tool of this name may change files without notice.
            watched: Returns how to record a command in a folder, with the start of its run in
                nanoseconds of the clock on the wall; None: not at all.
            keep_days: How long the records of other sessions are kept after their last change.
            bytes_max: What commands lost is kept up to this size; 0 for no limit.
        """
        self._folder = folder
        self._only_reads, self._is_foreign, self._watched = only_reads, is_foreign, watched
        self._keep_days, self._bytes_max = keep_days, bytes_max
        self._began_s = time.time()
        self.decide: Callable[[str, CommandQuestion], Awaitable[bool]] | None = None
        self.before: Callable[[str], Awaitable[None]] | None = None
        self.of_user: Callable[[str], Watched | None] = lambda _command: None
        # Tools write concurrently in threads.
        self._lock = threading.RLock()
        self._current = CurrentJournal(folder)
        self._has_bounded = False
        self._warned_of_commands: set[int] = set()
        self._warned: set[int] = set()
        self._run_id, self._first_run_id = "", own_run("", token_hex(4))
        self._run_began_ns = time.time_ns()
        self._digests = Digests()
        self._watches: list[Watch] = []

    def __call__(self, event: Event) -> None:
        """Track the current session and run."""
        match event:
            case SessionOpened(session_id=id) if id != self._current.session_id:
                self.save()
                self._current.switch(id)
                self._warned_of_commands, self._warned = set(), set()
                self._finish_undo()
            case AgentEnd():
                self.save()
            case PromptStarted(prompt=prompt):
                self._finish_undo()
                self._run_id, self._run_began_ns = prompt.id, time.time_ns()
            # A run that waited for approval continues, possibly after a restart.
            case PromptOutput(prompt_id=id) | PromptStateChanged(prompt_id=id):
                self._run_id = id
            case ToolExecutionEnd(tool_name=name, is_error=False) if self._is_foreign(name):
                with self._lock, faults_logged("command not noted", name):
                    self._current.open().add_command(self._run_id, name)
            case _:
                pass

    @contextmanager
    def writing(self, path: Path, before: bytes | None, after: bytes) -> Generator[None]:
        """Record that *path* becomes *after*, unless the body, which writes it, raises.

        Its old content is stored first. The path is real, and writes to one path are serialised.
        """
        from agent_cli_tools.snapshots.changes import Change  # with a change

        seen = Seen(None if before is None else digest(before), mode_of(path))
        found_ns = changed_ns_of(path)
        made = tuple(folder for folder in reversed(path.parents) if not folder.exists())
        with self._lock, faults_logged("content not kept for /undo", path, self._warned):
            for watch in self._watches:
                if not watch.is_recorded:
                    self._catch_up(path, watch.seen.get(path, seen), seen)
            run = self._current.open().open_run(self._run_id)
            is_first = all(change.path != path for change in run.changes)
            if before is not None and (run.logs or is_first):
                self._current.open().contents.keep(before)
            self._bound_store()
        yield
        with self._lock, faults_logged("change not kept for /undo", path, self._warned):
            times = {"at_ns": time.time_ns(), "found_ns": found_ns}
            self._add(Change(path, seen.digest, digest(after), seen.mode, made, **times))

    @asynccontextmanager
    async def running(
        self, command: str, *, by_hook: bool = False
    ) -> "AsyncGenerator[Watched | None]":
        """Record that *command* runs in the body, and its changes to known files.

        Its value says how its keeper is to record all of them; None if it cannot, or need not.

        Raises:
            ToolError: The command is not to run; the message says why.
        """
        if self._only_reads(command):
            yield None
            return
        if self.before is not None:
            await self.before(command)
        watch = Watch(by_hook=by_hook)
        with self._lock:
            self._watches.append(watch)
        # In threads, as earlier commands may have made the files large.
        try:
            order = await asyncio.shield(unstoppable(lambda: watch.begin(self._begin, command)))
            watch.has_run = True
            yield order
        finally:
            await asyncio.shield(unstoppable(lambda: watch.end(self._end, command)))

    async def decides(self, command: str, question: "CommandQuestion") -> bool:
        """Return the answer to the question of a running *command*."""
        return self.decide is None or await self.decide(command, question)

    def others_at_work(self) -> Mapping[str, Sequence[Path]]:
        """Return the other open sessions of this machine and the files they changed; blocks."""
        from agent_cli_tools.snapshots.kept_versions import at_work  # rare

        return at_work(self._folder, but=self._current.session_id or "")

    def changed_by(self, path: Path, *, with_own: bool) -> str:
        """Return which session or command changed *path* last, or "" if none did; blocks."""
        from agent_cli_tools.snapshots.kept_versions import changed_by  # rare

        name, id = str(path), self._current.session_id or ""
        with suppress(OSError):
            return changed_by({name}, self._folder, session=id, with_own=with_own).get(name, "")
        return ""

    def save(self) -> None:
        """Write lines that could not be written earlier, as far as possible."""
        with self._lock, faults_logged("changes not saved for /undo", self._run_id, self._warned):
            self._current.save()

    def close(self) -> None:
        """Let other programs have the record of the session, which ends."""
        self.save()
        with self._lock:
            self._current.close()

    def begin_own(self, command: str) -> "Watched | None":
        """Return how to keep what a *command* of the user names, a run of its own; blocks."""
        folder, order = "", self.of_user(command)
        with self._lock, faults_logged("command not recorded", command):
            folder = self._current.open().new_own_log(self._run_id, command) if order else ""
        return replace(order, folder=folder) if order and folder else None

    def planned_undo(self, *, but_own: bool = False) -> PlannedUndo:
        """Return the undo that `take_back` would do, or raise its refusal; blocks."""
        from agent_cli_tools.snapshots.taking_back import planned_undo  # with /undo

        with self._lock:
            return planned_undo(self._current.read(), self._folder, but_own=but_own)

    def take_back(self, *, but_own: bool = False, in_part: bool = False) -> TakenBack:
        """Undo the last run that changed files; blocks. The model learns that with its next call.

        With *but_own*, what the user's own commands, or hooks alone, changed stays; with *in_part*,
        files that changed since.

        Raises:
            AgentCliError: Nothing, or not everything, was undone; the message says why.
        """
        from agent_cli_tools.snapshots.taking_back import take_back  # with /undo

        with self._lock:
            journal = self._current.read()
            return take_back(journal, self._folder, but_own=but_own, in_part=in_part)

    def changed_runs(self) -> Sequence[str]:
        """Return the runs whose changes can be undone, oldest first; see the port; blocks."""
        from agent_cli_tools.snapshots.taking_back import undoable_runs  # with /undo

        with self._lock:
            return [run.id for run in undoable_runs(self._current.read())]

    def is_by_hooks(self, run_id: str) -> bool:
        """Return whether hooks alone made the changes of a run; blocks."""
        with self._lock:
            journal = self._current.read()
            return journal.is_by_hooks(journal.run(run_id))

    def differences(self, *, last_run: bool = False) -> Sequence[Difference]:
        """Return the files changed by the session, or by its last run; blocks.

        Raises:
            AgentCliError: The record of changes cannot be read.
        """
        from agent_cli_tools.snapshots.kept_versions import differences  # with /diff

        with self._lock:
            journal = self._current.read()
            standing = [run for run in journal.runs if journal.stands(run)]
            runs = standing[-1 if last_run else 0 :]
            changes = [change for run in runs for change in run.changes]
            logs = [log for run in runs for log in journal.logs_of(run)]
            return [*differences(changes, journal.contents, logs, journal.undone)]

    def commands(self, *, last_run: bool = False) -> Sequence[str]:
        """Return the commands of the session, or of its last run, that may have changed files.

        Raises:
            AgentCliError: The record of changes cannot be read.
        """
        with self._lock:
            runs = [run for run in self._current.read().runs if not run.taken_back]
            return [each for run in runs[-1 if last_run else 0 :] for each in run.commands]

    def note_worktree(self, path: Path) -> None:
        """Record that an agent works in a git worktree of its own at *path*; blocks.

        Nothing is kept of what it changes there: git has the files, and a merge is a change here.
        """
        with self._lock, faults_logged("worktree not noted", path):
            self._current.open().add_worktree(self._run_id, path)

    def worktrees(self) -> Sequence[Path]:
        """Return the git worktrees of the session's agents that are still there; see the port."""
        with self._lock:
            return self._current.read().worktrees

    def copy(self, from_session: str, to_session: str) -> None:
        """Copy the journal for a copy of the session, so that it can undo changes too; blocks."""
        from agent_cli_tools.snapshots.journal import copy_journal  # with a change

        self.save()
        with faults_logged("changes not copied", from_session), self._lock:
            copy_journal(self._folder / from_session, self._folder / to_session)

    def tell_model(self, turn: ModelListener) -> None:
        """Tell the model once, before a model call, which of its changes were undone."""
        with self._lock, faults_logged("model not told", self._run_id):
            if not self._current.has_any:
                return
            from agent_cli_tools.snapshots.taking_back import tell_all  # with /undo

            tell_all(self._current.open(), turn)

    def teller(self) -> "Callable[[ModelListener], None]":
        """Return a function that tells a subagent's model what was undone while it works.

        The changes are those of the session's run, so the session's own model is told as well.
        """
        known: set[str] | None = None

        def tell(turn: ModelListener) -> None:
            nonlocal known
            with self._lock, faults_logged("model not told", self._run_id):
                if not self._current.has_any:
                    known = known or set()
                    return
                from agent_cli_tools.snapshots.taking_back import tell_new  # as above

                known = tell_new(self._current.open(), known, turn)

        return tell

    def _order(self, watch: Watch, command: str) -> "Watched | None":
        """Return how the keeper of a command is to record it."""
        if self._watched is None:
            return None
        with self._lock, faults_logged("command not recorded", command, self._warned_of_commands):
            run = self._run_id or self._first_run_id
            watch.log = self._current.open().new_log(run, command, by_hook=watch.by_hook)
        folder = log_folder(watch, self._folder, self._warned_of_commands)
        order = self._watched(folder, command, self._run_began_ns) if folder else None
        if order and order.alone_since_ns:
            from agent_cli_tools.snapshots.division import replaced_in  # nobody is asked

            # Without them, a file that was there could pass for one that the run made.
            counted = replace(order, alone_since_ns=0)
            with self._lock, faults_logged("changes not read", command, self._warned_of_commands):
                found = replaced_in(self._current.open(), self._run_id)
                counted = replace(order, replaced=found)
            order = counted
        return order

    def _finish_undo(self) -> None:
        """Finish an undo that stopped, or was interrupted by a crash."""
        with self._lock, faults_logged("undo not finished", self._current.session_id):
            if self._current.is_recorded:
                from agent_cli_tools.snapshots.taking_back import finish  # rare

                finish(self._current.open())

    def _add(self, change: "Change") -> None:
        for watch in self._watches:
            watch.seen[change.path] = Seen(change.after, change.mode)
        self._current.open().add(self._run_id, change)

    def _catch_up(self, path: Path, before: Seen, now: Seen) -> None:
        """Record the changes of running commands to *path*."""
        from agent_cli_tools.snapshots.changes import Change  # with a change

        if before.digest != now.digest:
            at_ns = time.time_ns()  # among the changes that commands' keepers record
            self._add(Change(path, before.digest, now.digest, before.mode, at_ns=at_ns))

    def _begin(self, watch: Watch, command: str) -> "Watched | None":
        """Keep all known files before a command, and begin to watch it."""
        with faults_logged("contents not kept", command, self._warned_of_commands):
            with self._lock:
                paths = tuple((journal := self._current.open()).paths)
                if self._watched:
                    self._bound_store()
            for path in paths:
                keep_content(path, self._digests, journal.contents)
            with self._lock:
                for path in paths:  # a tool may have changed it
                    watch.seen.setdefault(path, seen_now(path, self._digests))
        return self._order(watch, command)

    def _end(self, watch: Watch, command: str) -> None:
        """Record a command that has ended, and its changes to known files."""
        with faults_logged("command not noted", command, self._warned_of_commands):
            unrecorded = watch.unrecorded() if watch.has_run else None
            for path in unrecorded or ():
                self._digests.of(path)  # while others need not wait for it
            with self._lock:
                self._watches = [each for each in self._watches if each is not watch]
                if unrecorded is not None:
                    for path in unrecorded:
                        self._catch_up(path, watch.seen[path], seen_now(path, self._digests))
                    if not watch.by_hook:
                        self._current.open().add_command(self._run_id, command)
            if watch.by_hook and watch.log:
                self._current.open().forget_empty(watch.log)

    def _bound_store(self) -> None:
        """Remove old records of other sessions, and kept files beyond the limit, once a program."""
        if not self._current.session_id or self._has_bounded:
            return
        from agent_cli_tools.snapshots.kept_versions import bound_store  # with a change

        self._has_bounded = True
        limits = {"days_max": self._keep_days, "bytes_max": self._bytes_max}
        bound_store(self._folder, but=self._current.session_id, since_s=self._began_s, **limits)
