"""The REPL's ports to the program; the composition root provides them."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from agent_cli.contracts.agents import AgentInfo, AgentServer, AgentWork
from agent_cli.contracts.dialogs import RemoteAnswersPort
from agent_cli.contracts.file_changes import FileChangesPort, PlannedUndo, TakenBack
from agent_cli.contracts.goals import GoalsPort
from agent_cli.contracts.listings import JobInfo, OfferedModel, SessionInfo, SessionMatch
from agent_cli.core.application import InteractiveApplication, StatusCommand
from agent_cli.repl.mcp import ServersPort
from agent_cli.system.launching import Launcher, Watched

ExportFormat: TypeAlias = Literal["md", "html", "json"]


class SessionsPort(Protocol):
    """Port to the sessions. Methods that change the conversation need an agent without a run.

    They raise `SessionError` on failure, without any change.
    """

    @property
    def id(self) -> str | None:
        """The id of the session that stores the conversation."""
        ...

    @property
    def path(self) -> Path | None:
        """The file of that session."""
        ...

    @property
    def workspace(self) -> str:
        """The directory in which it works, as `SessionInfo.workspace` names those of others."""
        ...

    @property
    def is_behind(self) -> bool:
        """Whether a part of that session could not be saved so far."""
        ...

    def list(self) -> Sequence[SessionInfo]:
        """Return all sessions, newest first."""
        ...

    def agents(self) -> Sequence[SessionInfo]:
        """Return the sessions of the current session's subagents, newest first."""
        ...

    def search(self, words: Sequence[str]) -> Sequence[SessionMatch]:
        """Return the sessions with all *words* in one entry, most recently used first; reads files.

        Raises:
            SessionError: The search took too long.
        """
        ...

    async def resume(self, id: str) -> None:
        """Continue an earlier session; a prefix of its id is enough."""
        ...

    async def fork(self, at: str | None = None) -> None:
        """Continue a copy of this session, up to the prompt or entry *at*."""
        ...

    def rewind(self, prompt_id: str) -> None:
        """Rewind to before a prompt."""
        ...

    def rename(self, name: str) -> None:
        """Name this session; raise `SessionError` if it is not kept."""
        ...

    async def export(self, to: ExportFormat, name: str = "") -> Path:
        """Write this session, without secrets, to *name* or a file of its id; return the file."""
        ...


class FileChanges(FileChangesPort, Protocol):
    """The changes of the current session. Every method blocks: call them in a thread."""

    def begin_own(self, command: str) -> Watched | None:
        """Return how to keep what a command of the user names, for an undo; None if nothing is."""
        ...

    def planned_undo(self, *, but_own: bool = False) -> PlannedUndo:
        """Return the undo that `take_back` would do; a part, if files would be kept.

        Raises:
            AgentCliError: It would refuse; the message says why.
        """
        ...

    def take_back(self, *, but_own: bool = False, in_part: bool = False) -> TakenBack:
        """Undo the last run that changed files, and inform the model with the next request.

        With *but_own*, what the user's own commands, or hooks alone, changed stays; with *in_part*,
        files that changed since, over which it is refused otherwise.

        Raises:
            AgentCliError: Nothing, or not everything, was undone; the message says why.
        """
        ...

    def changed_runs(self) -> Sequence[str]:
        """Return the runs whose changes can be undone, oldest first; see `own_run`.

        Raises:
            AgentCliError: The record of changes cannot be read.
        """
        ...

    def is_by_hooks(self, run_id: str) -> bool:
        """Return whether hooks alone made the changes of a run."""
        ...

    def worktrees(self) -> Sequence[Path]:
        """Return the git worktrees of the session's agents that are still there.

        Raises:
            AgentCliError: The record of changes cannot be read.
        """
        ...

    def commands(self, *, last_run: bool = False) -> Sequence[str]:
        """Return the commands of the session, or of its last run, that may have changed files.

        Raises:
            AgentCliError: The record of changes cannot be read.
        """
        ...


if TYPE_CHECKING:
    from agent_cli.terminal.views import View


class DirectoriesPort(Protocol):
    """Port to the directories the tools may use."""

    def add(self, path: str) -> Path:
        """Let the tools use a further directory until the program ends, and return it.

        Raises:
            UsageError: It is not a directory, or is in use already.
        """
        ...


class HooksPort(Protocol):
    """The lifecycle hooks."""

    @property
    def status(self) -> str:
        """The status message of a running hook, or ""."""
        ...

    def report(self) -> Sequence[str]:
        """Return a report: the defined hooks and the latest runs."""
        ...


class JobsPort(Protocol):
    """Port to background commands; methods with an unknown id raise `UsageError`.

    Attributes:
        on_change: Called when the number of running jobs, a badge, has changed.
    """

    on_change: Callable[[], object]

    @property
    def can_move(self) -> bool:
        """Whether the running command can be moved to the background."""
        ...

    def all(self) -> Sequence[JobInfo]:
        """Return the jobs in the order they were started."""
        ...

    def find(self, id: int) -> JobInfo:
        """Return the job *id*."""
        ...

    def tail(self, id: int, bytes_max: int) -> str:
        """Return the end of a job's output."""
        ...

    async def stop(self, id: int) -> JobInfo:
        """End a job, and return its final state."""
        ...

    def move_to_background(self) -> None:
        """Move the running command to the background.

        Raises:
            UsageError: It cannot be moved.
        """
        ...


class OutputStylesPort(Protocol):
    """Port to the output styles."""

    @property
    def current(self) -> str:
        """The name of the active style."""
        ...

    def names(self) -> Mapping[str, str]:
        """Return the names of all styles, each with its purpose; reads files."""
        ...

    def use(self, name: str) -> None:
        """Answer in this style from the next request on.

        Raises:
            UsageError: There is no such style.
        """
        ...


class AgentsPort(Protocol):
    """Port to the session's subagents; methods with an unknown number raise `UsageError`."""

    @property
    def is_any_working(self) -> bool:
        """Whether any agent is working."""
        ...

    def all(self) -> Sequence[AgentInfo]:
        """Return the agents in the order they were started."""
        ...

    def servers(self) -> Sequence[AgentServer]:
        """Return the MCP servers of working agents, and servers that start with other agents."""
        ...

    def work(self, number: int) -> AgentWork:
        """Return the task of an agent and its work so far."""
        ...

    def stop(self, number: int) -> AgentInfo:
        """Stop an agent and all its subagents."""
        ...


class Application(InteractiveApplication, Protocol):
    """Port to the program behind the REPL."""

    @property
    def ignored(self) -> str:
        """The sentence about files of the workspace that do not act before it is trusted, or ""."""
        ...

    @property
    def hooks(self) -> HooksPort:
        """The lifecycle hooks."""
        ...

    @property
    def remote_answers(self) -> RemoteAnswersPort | None:
        """Answers given elsewhere; None if no hook of the user may pass any on."""
        ...

    @property
    def launcher(self) -> Launcher:
        """Starts commands that must not outlive the program."""
        ...

    @property
    def jobs(self) -> JobsPort:
        """The background commands."""
        ...

    @property
    def agents(self) -> AgentsPort:
        """The subagents of the session."""
        ...

    @property
    def goals(self) -> GoalsPort:
        """The goal of the session."""
        ...

    @property
    def sessions(self) -> SessionsPort:
        """The stored sessions."""
        ...

    @property
    def file_changes(self) -> FileChanges:
        """The changes the agent made to files."""
        ...

    @property
    def directories(self) -> DirectoriesPort:
        """The directories the tools may use."""
        ...

    def overview(self) -> Sequence[str]:
        """Return lines for the start: tools, MCP servers, log sinks."""
        ...

    @property
    def servers(self) -> ServersPort:
        """The MCP servers."""
        ...

    async def examine(self) -> "View":
        """Check each part of the program; return the results with the remedy for each fault."""
        ...

    def badges(self) -> Sequence[str]:
        """Return words for the status line, the most important first: the permission mode."""
        ...

    async def offered_models(self) -> Sequence[OfferedModel]:
        """Return the models the server offers; none if it does not answer soon."""
        ...

    @property
    def output_styles(self) -> OutputStylesPort:
        """The output styles."""
        ...

    @property
    def status_command(self) -> StatusCommand | None:
        """The user's command for a line below the prompt, or None."""
        ...

    async def ask_aside(self, question: str) -> str:
        """Return the model's answer to a question that stays out of the conversation, as Markdown.

        Raises:
            AgentCliError: There is no conversation yet, or no answer.
        """
        ...

    def uncompact(self) -> None:
        """Restore the older messages that a summary or a message limit left out.

        Raises:
            AgentCliError: Nothing is left out.
        """
        ...

    def clear(self) -> None:
        """Begin a new conversation, and a new session with it."""
        ...
