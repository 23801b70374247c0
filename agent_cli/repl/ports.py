"""The REPL's ports to the program; the composition root provides them."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from agent_cli.contracts.jobs import JobInfo
from agent_cli.contracts.sessions import SessionInfo
from agent_cli.core.application import InteractiveApplication
from agent_cli.repl.file_changes import FileChanges
from agent_cli.repl.mcp.ports import ServersPort

if TYPE_CHECKING:
    from agent_cli.terminal.views.console import View

ExportFormat: TypeAlias = Literal["md", "html", "json"]


class SessionsPort(Protocol):
    """Port to the sessions. Only `list` and `id` may be called during a run.

    Methods that change the conversation raise `SessionError` on failure, without any change.
    """

    @property
    def id(self) -> str | None:
        """The id of the session that stores the conversation."""
        ...

    def list(self) -> Sequence[SessionInfo]:
        """Return all sessions, newest first."""
        ...

    def agents(self) -> Sequence[SessionInfo]:
        """Return the sessions of the current session's subagents, newest first."""
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

    def export(self, to: ExportFormat) -> Path:
        """Write this session, without secrets, into the workspace and return the file."""
        ...


class DirectoriesPort(Protocol):
    """Port to the directories the tools may use."""

    def add(self, given: str) -> Path:
        """Let the tools use a further directory until the program ends, and return it.

        Raises:
            UsageError: It is not a directory, or is in use already.
        """
        ...


class HooksPort(Protocol):
    """The lifecycle hooks."""

    def report(self) -> Sequence[str]:
        """Return a report: the defined hooks and the latest runs."""
        ...


class JobsPort(Protocol):
    """Port to background commands; methods with an unknown id raise `UsageError`."""

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


class Application(InteractiveApplication, Protocol):
    """Port to the program behind the REPL."""

    @property
    def hooks(self) -> HooksPort:
        """The lifecycle hooks."""
        ...

    @property
    def jobs(self) -> JobsPort:
        """The commands in the background."""
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
        """Return words for the status line: the permission mode first, sandbox, MCP servers."""
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
