"""The environment of hooks: their sandbox, copies of the conversation, and who is told of changes.

A user's hook runs outside the sandbox where it certainly runs no file of the workspace.
Files that appeared beside a command, and that no person decided about, end that certainty: `git
status` runs what the configuration of a new repository names.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from agent_cli.app.startup import StartupContext
from agent_cli.contracts.agents import WorkingAgent
from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.timeline import Json
from agent_cli.core.conversation import Conversation
from agent_cli.core.turn import Turn
from agent_cli.hooks.claude_terms import TranscriptCopy
from agent_cli.hooks.definition import Hook
from agent_cli.hooks.run import PreparedHook
from agent_cli.sandbox import Sandbox, SandboxMissing
from agent_cli.system.event_loop import in_background
from agent_cli.system.logger import logger
from agent_cli.system.paths import is_dir, real_path
from agent_cli.system.temporary_files import OwnFolder

if TYPE_CHECKING:
    from agent_cli.app.hooks.changed_files import EndedLogs
    from agent_cli.sandbox.confinement import Change, Confinement, Rules
    from agent_cli_tools import Workspace
    from agent_cli_tools.seen import SeenFiles

_NO_SANDBOX: Final = (
    "it may run files of this workspace, which is not trusted, and there is no sandbox for it here;"
    " `agent-cli trust` or --trust allows it, or `sandbox = false` in your own definition of it"
)


class HookConfinement:
    """Starts hooks in the sandbox of the session; implements `hooks.run.PrepareHook`.

    Attributes:
        ran: Called when a FileChanged hook ends, with the folder of its log; None if not all that
            it changes was recorded.
        changes: What hooks change, for the models.
    """

    def __init__(
        self,
        startup: StartupContext,
        sandbox: Sandbox,
        shown: Callable[[], Path] | None = None,
        workspace: "Workspace | None" = None,
    ) -> None:
        """Judge nothing yet: the parser is loaded with the first hook that runs.

        *shown* returns a folder that hooks in the sandbox may read as well; *workspace* records
        what hooks change.
        """
        self._shown = shown
        self._workspace = workspace
        self._startup = startup
        self._sandbox = sandbox
        self._outside: dict[Hook, bool] = {}
        self.ran: Callable[[Path | None], None] = lambda _log: None
        self.changes = HookChanges()

    @asynccontextmanager
    async def __call__(self, hook: Hook, command: Sequence[str]) -> AsyncGenerator[PreparedHook]:
        """Yield the way to start *hook*, whose command is *command*; free its resources after."""
        if self._workspace is None:
            async with self._confined(hook, command) as (prepared, _confinement):
                yield prepared
            return
        from agent_cli.app.hooks.changed_files import HookRecording  # as above

        ran = {"ran": self.ran} if hook.event == "FileChanged" else {}
        recording = HookRecording(self._workspace, hook, command, recorded=self.changes.add, **ran)
        async with AsyncExitStack() as stack:
            try:
                watched = await stack.enter_async_context(recording.running())
            except ToolError as error:
                yield PreparedHook((), fault=str(error))
                return
            prepared, confinement = await stack.enter_async_context(self._confined(hook, command))
            if watched is not None and not prepared.fault:
                prepared = await recording.around(prepared, watched, confinement)
            yield prepared

    @asynccontextmanager
    async def _confined(
        self, hook: Hook, command: Sequence[str]
    ) -> "AsyncGenerator[tuple[PreparedHook, Confinement | None]]":
        if hook not in self._outside:
            self._outside[hook] = runs_outside(hook, self._startup)
        if self._outside[hook] and not self._sandbox.undecided_files:
            yield PreparedHook(command), None
            return
        try:
            confinement = await self._sandbox.confine(self._startup.workspace, self._opening(hook))
        except SandboxMissing as error:
            yield PreparedHook((), fault=str(error)), None
            return
        if confinement is None:
            fault = "" if self._may_run_anywhere(hook) else _NO_SANDBOX
            yield PreparedHook(command, fault=fault, is_own=False), None
            return
        try:
            yield _prepared(confinement, command), confinement
        finally:
            await in_background(confinement.release)

    def _opening(self, hook: Hook) -> "Change":
        """Return what opens to *hook* the copies of the conversation, and its plugin's folders."""
        readable, writable = [self._shown()] if self._shown else [], list[Path]()
        if hook.root:
            from agent_cli.added_plugins.plugin import DATA  # rare

            readable.append(real_path(Path(hook.root)))
            writable += (real_path(path) for name, path in hook.variables if name == DATA)

        def opening(rules: "Rules") -> "Rules":
            opened = rules.opened(readable, [path for path in writable if is_dir(path)])
            return replace(opened, is_apart=True)

        return opening

    def _may_run_anywhere(self, hook: Hook) -> bool:
        """Return whether the user has trusted all that *hook* may run."""
        return (
            self._outside[hook]
            or self._startup.trusted
            or hook.root != ""
            or (self._startup.guarded and hook.is_project)
        )


def _prepared(confinement: "Confinement", command: Sequence[str]) -> PreparedHook:
    return PreparedHook(
        confinement.around(command), confinement.environment, is_confined=True, is_own=False
    )


def runs_outside(hook: Hook, startup: StartupContext) -> bool:
    """Return whether *hook* runs outside the sandbox.

    A user's hook does if its definition says so, or if it names no file of the workspace and starts
    only programs that certainly run none either.
    """
    from agent_cli.policies.shell.named_paths import runs_own_files_only
    from agent_cli.settings.hook_files import scripts_of_command  # with the first hook

    if hook.is_foreign:
        return False
    if hook.outside:
        return True
    if scripts_of_command(hook.command, hook.args, startup.workspace):
        return False
    home = str(Path.home())
    if hook.args is not None:
        return runs_own_files_only((hook.command, *hook.args))
    return runs_own_files_only(hook.command.replace("${HOME}", home).replace("$HOME", home))


_log = logger(__name__)


class HookTranscripts:
    """The copies of one session, in a folder that only the user may enter; `close` removes it.

    A copy is written when a hook is about to read it. The record itself is no such file: it has
    another form, and commands in the sandbox do not see it.
    """

    def __init__(self, workspace: Path) -> None:
        """Write nothing yet."""
        self._workspace = workspace
        self._own: OwnFolder | None = None
        self._copies: dict[Path, TranscriptCopy] = {}

    @property
    def folder(self) -> Path:
        """The folder of the copies.

        Raises:
            OSError: The disk is full.
        """
        if self._own is None:
            self._own = OwnFolder()
        return self._own.path

    def of_session(self, conversation: Conversation, session_id: str) -> str:
        """Return the current copy of the session's *conversation*; "" if it cannot be written."""
        about: dict[str, Json] = {"sessionId": session_id, "isSidechain": False}
        return self._updated(conversation, f"{session_id or 'session'}.jsonl", about)

    def of_agent(self, conversation: Conversation, agent: WorkingAgent, session_id: str) -> str:
        """Return the current copy of the *conversation* of a subagent, likewise."""
        about: dict[str, Json] = {
            "sessionId": session_id,
            "isSidechain": True,
            "agentId": agent.id,
            "cwd": str(agent.directory),
        }
        name = f"{session_id or 'session'}/subagents/agent-{agent.id}.jsonl"
        return self._updated(conversation, name, about)

    def close(self) -> None:
        """Remove the copies."""
        if self._own is not None:
            self._own.remove()

    def _updated(self, conversation: Conversation, name: str, about: Mapping[str, Json]) -> str:
        try:
            path = self.folder / name
            copy = self._copies.setdefault(path, TranscriptCopy(path, self._workspace, about))
            return str(copy.update(conversation.prompts))
        except OSError as error:
            _log.warning("no transcript for hooks", cause=str(error))
            return ""


class HookChanges:
    """Tells models which files that they have read hooks changed, as results of commands do.

    It holds the logs of a session's hooks until each of its agents was told of the changes.
    """

    def __init__(self) -> None:
        """Wait for hooks."""
        self._tellers: WeakSet[HookChangesTeller] = WeakSet()

    def add(self, log: Path) -> None:
        """Tell of a hook that has ended, with its log in the folder *log*."""
        for teller in self._tellers:
            teller.add(log)

    def teller(self, workspace: "Workspace") -> "HookChangesTeller":
        """Return the teller for the agent in *workspace*, about hooks that end from now on."""
        teller = HookChangesTeller(workspace.seen)
        self._tellers.add(teller)
        return teller


class HookChangesTeller:
    """A `prepare` contributor of one agent."""

    def __init__(self, seen: "SeenFiles") -> None:
        """Tell of files in *seen*."""
        self._seen = seen
        self._logs: EndedLogs | None = None

    def add(self, log: Path) -> None:
        """Tell of a hook that has ended, with its log in the folder *log*."""
        from agent_cli.app.hooks.changed_files import EndedLogs  # with the first hook

        self._logs = self._logs or EndedLogs()
        self._logs.add(log)

    async def __call__(self, turn: Turn) -> None:
        """Tell the model in one message, unless results of its calls are due first."""
        if self._logs is None or turn.conversation.open_calls():
            return
        from agent_cli_tools.command_answers import changes_of_hooks  # with the first hook

        ended = self._logs.ended()
        if report := await asyncio.to_thread(changes_of_hooks, ended, self._seen):
            turn.tell_model(report)
