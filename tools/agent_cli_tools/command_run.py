"""Run one command of the model to its end, or as a background job."""

import asyncio
import re
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.tooling import ToolContext, ToolResult
from agent_cli.sandbox import Confinement, Sandbox, SandboxMissing
from agent_cli.system.batches import first_of
from agent_cli.system.launching import Watched
from agent_cli.system.records import dataclass
from agent_cli.system.trees import file_time_ns
from agent_cli.undo.watchable import may_gain_rights
from agent_cli_tools.command_answers import (
    Ended,
    changes_of_job,
    finished,
    moved,
    refused,
    so_far,
    started,
    stopped,
)
from agent_cli_tools.command_start import PacedUpdates, advice_about, start_command
from agent_cli_tools.job import Job
from agent_cli_tools.output import LinePattern, OutputBuffer
from agent_cli_tools.processes import RunningCommand, TimeLimits
from agent_cli_tools.searches import searcher
from agent_cli_tools.workspace import Workspace

_SETTLE_S = 0.3
# In separate sandboxes one command cannot signal another, so we end the job for `kill`. The form is
# that of a shell, which says there is no such job if it does not know it, e.g. after a resume.
_SIGNALS_JOB = re.compile(r"kill (?:-(?:SIG)?(?P<signal>\w+) )?%(?P<id>[1-9]\d*)")
_ENDING = {None, *("TERM", "KILL", "INT", "HUP", "QUIT"), *("15", "9", "2", "1", "3")}


@dataclass(frozen=True, slots=True)
class CommandRequest:
    """The command to run.

    Attributes:
        text: The script for bash.
        timeout_s: How long to wait for it.
        notify: For a job: the model is notified of the first line that matches this regex; "" for
            none.
        in_background: Start it as a job.
        has_timeout: Whether the model named `timeout_s`.
    """

    text: str
    timeout_s: float
    notify: str = ""
    in_background: bool = False
    has_timeout: bool = False


class CommandRun:
    """One call of bash."""

    def __init__(
        self,
        workspace: Workspace,
        sandbox: Sandbox | None,
        request: CommandRequest,
        new_output: Callable[[], OutputBuffer],
        on_update: ToolContext,
        watched: Watched | None = None,
    ) -> None:
        """Run nothing yet; without *sandbox* the command has all rights of the user.

        *watched* says how to record what it changes.
        """
        self._workspace = workspace
        self._jobs = workspace.shared.jobs
        self._sandbox = sandbox
        self._request = request
        self._new_output = new_output
        self._output = new_output()
        self._call_id = on_update.tool_call_id
        self._on_update = on_update
        self._watched = watched
        self._limits = TimeLimits()

    async def result(self) -> ToolResult:
        """Run the command and return its result."""
        if job := self._job_to_end():
            await self._jobs.stop(job, by="model")
            return ToolResult.of(f"Job {job.id} and all it started has ended.")
        pattern = await self._pattern()
        try:
            with self._room():
                return await self._once(pattern)
        except _NotBegun:
            # A path to hide or to protect has vanished, such as another program's socket.
            self._output = self._new_output()
        try:
            with self._room():
                return await self._once(pattern)
        except _NotBegun as error:
            raise ToolError(
                f"The command did not run, because the sandbox could not be made: {error}."
                " Call again; tell the user if that does not help."
            ) from error

    def _room(self) -> AbstractContextManager[None]:
        """Return the place of a new job, if the command is to become one."""
        if not self._request.in_background:
            return nullcontext()
        return self._jobs.room(self._output, self._workspace.has_started)

    async def _once(self, pattern: LinePattern | None) -> ToolResult:
        """Run the command in a sandbox for what is there now, and return its result.

        Raises:
            _NotBegun: The sandbox was not built.
        """
        confinement = self._outline() or await self._confinement()
        updates = PacedUpdates(lambda: self._on_update(so_far(self._output)))
        began_ns = file_time_ns()
        command = await self._started(confinement or Confinement(), updates)
        command.decide = partial(self._workspace.decides, self._request.text)
        command.limits = self._limits
        began = time.monotonic()
        try:
            code, goes_on = await self._waited_for(command)
        except BaseException as error:
            await command.stop()
            if isinstance(error, asyncio.CancelledError):
                message = stopped(self._output, time.monotonic() - began)
                raise ToolError("\n".join([message, *command.put_back])) from None
            raise
        finally:
            updates.stop()
        left = command.others()
        if command.has_ended():
            await command.finish()
        else:
            self._workspace.shared.keep(command)
        if goes_on:
            job = self._job(command, pattern, began, is_confined=confinement is not None)
            return self._handed_on(job, time.monotonic() - began)
        if code and not command.has_begun:
            raise _NotBegun(self._output.last_lines().strip())
        notes = [*command.put_back]
        if self._sandbox is not None:  # of files that appeared beside this command, or one before
            notes += await self._sandbox.settle()
        if command.refused:
            notes.append(refused(command.refused))
        if confinement is not None and self._sandbox is not None:
            output, failed = self._output.text(), code != 0
            text, confined = self._request.text, command.confinement
            denied = self._sandbox.denial(output, text, confined, failed=failed)
            notes += filter(None, [denied])
        ended = Ended(
            code=code,
            duration_s=time.monotonic() - began,
            limit_s=self._request.timeout_s,
            left=left,
            notes=notes,
            ended_with_it=command.ended_with_it,
            began_ns=began_ns,
        )
        return finished(self._output, ended)

    async def _started(self, confinement: Confinement, updates: PacedUpdates) -> RunningCommand:
        text = self._request.text
        watched = await recorded(self._workspace, text, self._watched, confinement)
        began = time.monotonic()
        try:
            return await start_command(
                self._workspace,
                text,
                confinement,
                self._output,
                updates.due,
                watched=watched,
                confine=self._whole if confinement.rest >= 0 else None,
            )
        except asyncio.CancelledError:
            updates.stop()
            if not self._output.last_lines():
                raise
            # It was already printing, although its start was not confirmed yet.
            raise ToolError(stopped(self._output, time.monotonic() - began)) from None

    def _job_to_end(self) -> Job | None:
        """Return the agent's running job that this command kills, if that is all it does.

        Raises:
            ToolError: It sends a signal that does not end a program.
        """
        sent = _SIGNALS_JOB.fullmatch(self._request.text.strip())
        if sent is None:
            return None
        running = (job for job in self._workspace.own_jobs if job.is_running)
        job = next((job for job in running if str(job.id) == sent["id"]), None)
        if job and sent["signal"] not in _ENDING:
            raise ToolError(
                f"Job {job.id} is running and got no signal: `kill %{job.id}` ends it,"
                " and nothing else can be sent to a job."
            )
        return job

    async def _pattern(self) -> LinePattern | None:
        if not self._request.notify:
            return None
        pattern = LinePattern(self._request.notify, searcher(self._workspace.root))
        await pattern.check()
        return pattern

    async def _waited_for(self, command: RunningCommand) -> tuple[int | None, bool]:
        """Return the exit code, or None, and whether the command continues as a job."""
        if self._request.in_background:
            # A background command may fail at once; then its output is the result.
            await command.ends_within(_SETTLE_S)
        elif await self._was_moved(command):
            return None, True
        code = command.exit_code
        if code is not None:
            await command.drain()
        elif self._request.in_background:
            return None, True
        else:
            await command.stop()
        return code, False

    async def _was_moved(self, command: RunningCommand) -> bool:
        """Wait for the end or the limit; return whether the user moved it to the background."""
        until_s = time.monotonic() + self._request.timeout_s
        with self._jobs.foreground() as moved:
            await first_of(command.ends_within(self._request.timeout_s), moved.wait())
        if command.exit_code is not None or not moved.is_set():
            return False
        if self._output.keep_file():
            return True
        await command.ends_within(until_s - time.monotonic())  # the disk is full
        return False

    def _job(
        self,
        command: RunningCommand,
        pattern: LinePattern | None,
        began_s: float,
        *,
        is_confined: bool,
    ) -> Job:
        """Make *command* a job of the session."""
        job = self._jobs.start(
            self._call_id,
            self._request.text,
            command,
            self._output,
            pattern,
            is_confined=is_confined,
        )
        job.started_s = began_s
        if self._watched:
            folder, seen = Path(self._watched.folder), self._workspace.seen
            command.changes = partial(changes_of_job, folder, seen)
        return job

    def _handed_on(self, job: Job, elapsed_s: float) -> ToolResult:
        ends_with_run = self._workspace.jobs_end_with_run
        if self._request.in_background:
            limit_s = self._jobs.timeout_s if self._request.has_timeout else None
            return started(job, limit_s, ends_with_run=ends_with_run)
        return moved(job, elapsed_s, ends_with_run=ends_with_run)

    def _outline(self) -> Confinement | None:
        """Return the confinement to start with while `_whole` makes the whole one, if possible."""
        if self._sandbox is None or self._workspace.shared.network is not None:
            return None
        return self._sandbox.outline()

    async def _whole(self) -> Confinement:
        confinement = await self._confinement()
        assert confinement, "a sandbox has no outline if none works"
        return confinement

    async def _confinement(self) -> Confinement | None:
        if self._sandbox is None:
            return None
        try:
            shared = self._workspace.shared
            confinement = await self._sandbox.confine(self._workspace.root, shared.opened)
            return confinement and self._with_network(confinement)
        except SandboxMissing as error:
            raise ToolError(f"No command can run: {error}. Tell the user.") from error
        except OSError as error:
            cause = "Is the disk full? " if error.errno else ""  # else the sentence says it
            advice = advice_about(error, f"{cause}Tell the user.")
            raise ToolError(f"The sandbox could not be made: {error}. {advice}") from error

    def _with_network(self, confinement: Confinement) -> Confinement:
        """Return *confinement* with a way out to hosts, where the network is open by host."""
        network = self._workspace.shared.network
        if network is None or not confinement.nested:
            return confinement
        try:
            way = network.open(self._request.text, self._limits.standing_still)
        except BaseException:
            confinement.release()
            raise
        return confinement.reaching(way)


async def recorded(
    workspace: Workspace, command: str, watched: Watched | None, confinement: Confinement
) -> Watched | None:
    """Return how to record what a *command* changes; None if that is not possible.

    Where a watch, as in *watched*, would hinder it, what it names is kept.
    """
    if watched is None or watched.takes_rights or watched.named:
        return watched
    restricts_itself = confinement.restriction is not None
    if not may_gain_rights(confinement.prefix, restricts_itself=restricts_itself):
        return watched
    named = workspace.shared.named_files
    found = await asyncio.to_thread(named, command) if named else None
    return replace(watched, named=found) if found else None


class _NotBegun(Exception):
    """The program that builds the sandbox failed; its text says why."""
