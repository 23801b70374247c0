"""Record for `/undo` what hooks change, and read from such records what calls and hooks changed.

FileChanged hooks get the changes of calls; `HookChanges` tells the models the changes of hooks.

Files that `/undo` leaves out (git's own, the caches of tools) are left out here as well.
"""

import asyncio
import os
import shlex
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from agent_cli.app import parts
from agent_cli.app.startup import StartupContext
from agent_cli.hooks.definition import Hook
from agent_cli.hooks.file_watch import FileChange
from agent_cli.hooks.run import PreparedHook
from agent_cli.sandbox import Confinement
from agent_cli.sandbox.secret_files import holds_token, is_behind_a_secret, is_other_name, is_secret
from agent_cli.system.asked_program import ProgramAnswer, ask_watched
from agent_cli.system.keeper import LEFT_DESCRIPTOR
from agent_cli.system.launching import Order, Watched
from agent_cli.system.paths import real_path
from agent_cli.undo.logs import CommandLog, is_running, question_of, short_log
from agent_cli_tools import Workspace
from agent_cli_tools.snapshots.commands import origins

if TYPE_CHECKING:
    from agent_cli.app.hooks.confinement import HookConfinement

_MOVED_FILES_MAX: Final = 10_000
# A shell finds the program, and says so if it cannot be started. In a process namespace it tells
# that the sandbox is built.
_PLAIN: Final = ("/bin/sh", "-c", 'exec "$@"', "sh")
_NESTED: Final = (
    *("/bin/sh", "-c", f'echo >&{LEFT_DESCRIPTOR}; exec "$@" {LEFT_DESCRIPTOR}>&-', "sh"),
)


class HookRecording:
    """The recording of one run of a hook, as those of the model's commands are recorded.

    Its keeper asks before it deletes or overwrites much, and its time limit stands still meanwhile.
    """

    def __init__(
        self,
        workspace: Workspace,
        hook: Hook,
        command: Sequence[str],
        ran: Callable[[Path | None], None] = lambda _log: None,
        recorded: Callable[[Path], None] = lambda _log: None,
    ) -> None:
        """Record nothing yet; *command* is the command line of *hook*.

        *ran* is called when it ends, with the folder of its log; None if it is not watched.
        *recorded* is called with the log of one of which only the named files are kept, too.
        """
        self._workspace = workspace
        self._ran, self._recorded = ran, recorded
        self._command = command
        self._is_watched = False
        is_shell = hook.args is None
        self._text = hook.command if is_shell else shlex.join([hook.command, *(hook.args or ())])

    @asynccontextmanager
    async def running(self) -> "AsyncGenerator[Watched | None]":
        """Run the hook in the body; the value is how to record it."""
        async with self._workspace.running(self._text, by_hook=True) as watched:
            try:
                yield watched
            finally:
                self._ran(Path(watched.folder) if watched and self._is_watched else None)
                if watched:
                    self._recorded(Path(watched.folder))

    async def around(
        self, prepared: PreparedHook, watched: Watched, confinement: Confinement | None
    ) -> PreparedHook:
        """Return *prepared*, recorded if that is possible, in *confinement* if there is one."""
        from agent_cli_tools.command_run import recorded  # with a hook

        confinement = confinement or Confinement()
        order = await recorded(self._workspace, self._text, watched, confinement)
        self._is_watched = order is not None and order.named is None
        if order is None:
            return prepared

        async def ask(
            sent: bytes, environment: Mapping[str, str], limit: asyncio.Timeout
        ) -> ProgramAnswer:
            return await self._ask(order, confinement, sent, environment, limit)

        return replace(prepared, ask=ask)

    async def _ask(
        self,
        watched: Watched,
        confinement: Confinement,
        sent: bytes,
        environment: Mapping[str, str],
        limit: asyncio.Timeout,
    ) -> ProgramAnswer:
        shell = _NESTED if confinement.nested else _PLAIN
        order = Order(
            arguments=[*confinement.prefix, *shell, *self._command],
            cwd=str(self._workspace.root),
            environment=environment,
            files=confinement.files,
            restriction=confinement.restriction,
            nested=confinement.nested,
            watched=watched,
        )

        async def decide(question: dict[str, Any]) -> bool:
            left_s = (limit.when() or 0.0) - asyncio.get_running_loop().time()
            if not limit.expired():
                limit.reschedule(None)
            try:
                return await self._workspace.decides(self._text, question_of(question))
            finally:
                if not limit.expired():
                    limit.reschedule(asyncio.get_running_loop().time() + left_s)

        return await ask_watched(order, sent, self._workspace.shared.launcher, decide)


class ChangedFiles:
    """The changes that calls made, until taken; implements `hooks.file_watch.CallChanges`."""

    def __init__(self, startup: StartupContext, workspace: Workspace) -> None:
        """Wait for calls in *workspace*."""
        self._startup = startup
        self._root = workspace.root
        self._rules = parts.permission_rules(startup)
        # Tools write in threads.
        self._written: deque[FileChange] = deque()
        self._logs, self._logs_of_hooks = EndedLogs(), EndedLogs()
        self.records_hooks = True
        workspace.shared.wrote = self._wrote
        workspace.shared.ran = self._logs.add

    def follow(self, confinement: "HookConfinement") -> "ChangedFiles":
        """Also keep what FileChanged hooks in *confinement* change; return this."""
        confinement.ran = self._hook_ran
        return self

    def _hook_ran(self, log: Path | None) -> None:
        if log is None:
            self.records_hooks = False
        else:
            self._logs_of_hooks.add(log)

    def take(self) -> Iterator[Sequence[FileChange]]:
        """Yield, once for each call that has ended, what it changed."""
        while self._written:
            yield (self._written.popleft(),)
        for log in self._logs.ended():
            yield [FileChange(self._named(str(path)), what) for path, what in changes_of(log)]

    def take_own(self) -> Mapping[Path, tuple[int, int] | None]:
        """Return the files that FileChanged hooks changed, once, each as they left it."""
        found: dict[Path, tuple[int, int] | None] = {}
        for log in self._logs_of_hooks.ended():
            for path, left in log.after.items():
                if left is None or len(left) == 3:
                    found[self._named(path)] = None if left is None else (left[1], left[2])
        return found

    def is_masked(self, path: Path) -> bool:
        """Return whether commands in the sandbox do not see *path*."""
        real = real_path(path)
        return (
            is_secret(path)
            or is_secret(real)
            or is_other_name(real, self._root, Path.home())
            or is_behind_a_secret(real)
            or holds_token(real)
            or self._rules.hides(real, self._root)
        )

    def _wrote(self, path: Path, is_new: bool) -> None:
        self._written.append(FileChange(self._named(str(path)), "add" if is_new else "change"))

    def _named(self, path: str) -> Path:
        """Return a real path as one below the workspace, which may be a link."""
        real = Path(path)
        if not real.is_relative_to(self._root):
            return real
        return self._startup.workspace / real.relative_to(self._root)


class EndedLogs:
    """The logs of commands that may still run."""

    def __init__(self) -> None:
        """Wait for no command yet."""
        self._new: deque[Path] = deque()
        self._running: list[Path] = []

    def add(self, folder: Path) -> None:
        """Wait for the end of the command with the log in *folder*."""
        self._new.append(folder)

    def ended(self) -> Iterator[CommandLog]:
        """Yield, once each, the logs of the commands that have ended; a job is waited for."""
        waiting = self._running
        read = [folder for folder in waiting if not is_running(folder)]
        self._running = [folder for folder in waiting if folder not in read]
        while self._new:
            read.append(self._new.popleft())
        for folder in read:
            log = short_log(folder)
            if log and log.ended_ns:
                yield log
            elif is_running(folder):
                self._running.append(folder)


def changes_of(log: CommandLog) -> Iterator[FileChange]:
    """Yield the files that a command changed, also in folders that it moved."""
    found = origins((), [log])
    for path, origin in found.items():
        if "/.git/" in path:
            continue
        is_there = log.after[path] is not None if path in log.after else os.path.lexists(path)
        if is_there:
            yield FileChange(Path(path), "change" if origin.was_there else "add")
        elif origin.was_there:
            yield FileChange(Path(path), "unlink")
    made = {each.path for each in log.records if each.kind in ("made", "came")}
    for folder, before in _moved_folders(log).items():
        for inside in _files_below(folder):
            now, then = f"{folder}/{inside}", f"{before}/{inside}"
            if now not in found:
                yield FileChange(Path(now), "add")
            if then not in found and then not in made and not os.path.lexists(then):
                yield FileChange(Path(then), "unlink")


def _moved_folders(log: CommandLog) -> Mapping[str, str]:
    """Return the folders that a command moved, each with its name before the command."""
    names: dict[str, str] = {}
    for record in log.records:
        if record.kind == "moved" and record.state and record.state.is_folder:
            names[record.to] = names.pop(record.path, record.path)
    return names


def _files_below(folder: str) -> Iterator[str]:
    left = _MOVED_FILES_MAX
    for path, folders, files in os.walk(folder):
        folders[:] = [each for each in folders if each != ".git"]
        for name in files[:left]:
            yield os.path.relpath(f"{path}/{name}", folder)
        left -= len(files)
        if left <= 0:
            return
