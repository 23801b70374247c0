"""What the REPL needs of the program behind it; the composition root provides it."""

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
    """The sessions of this program. Nothing but `list` and `id` may be called during a run.

    What changes the conversation raises `SessionError` when it cannot, and changes nothing then.
    """

    @property
    def id(self) -> str | None:
        """The session the conversation is kept in."""
        ...

    def list(self) -> Sequence[SessionInfo]:
        """Return all sessions, the newest first."""
        ...

    def agents(self) -> Sequence[SessionInfo]:
        """Return the sessions of agents that worked for the one at hand, the newest first."""
        ...

    async def resume(self, id: str) -> None:
        """Go on with an earlier session; the beginning of its id is enough."""
        ...

    async def fork(self, at: str | None = None) -> None:
        """Go on with a copy of this session, up to the prompt or entry *at*."""
        ...

    def rewind(self, prompt_id: str) -> None:
        """Go back to before a prompt."""
        ...

    def export(self, to: ExportFormat) -> Path:
        """Write this session, without secrets, into the workspace and return the file."""
        ...


class DirectoriesPort(Protocol):
    """The directories the tools may use."""

    def add(self, given: str) -> Path:
        """Let the tools use one more directory, until the program ends, and return it.

        Raises:
            UsageError: It is no directory, or may be used already.
        """
        ...


class HooksPort(Protocol):
    """The lifecycle hooks."""

    def report(self) -> Sequence[str]:
        """Return lines about what is defined and what ran last."""
        ...


class JobsPort(Protocol):
    """The commands in the background; what names one by its number raises `UsageError`."""

    @property
    def can_move(self) -> bool:
        """Whether a command runs that can go on in the background."""
        ...

    def all(self) -> Sequence[JobInfo]:
        """Return the jobs in the order they were started."""
        ...

    def find(self, id: int) -> JobInfo:
        """Return one."""
        ...

    def tail(self, id: int, bytes_max: int) -> str:
        """Return the end of the output of one."""
        ...

    async def stop(self, id: int) -> JobInfo:
        """End one, and return how it ended."""
        ...

    def move_to_background(self) -> None:
        """Let the command that runs go on in the background.

        Raises:
            UsageError: It cannot.
        """
        ...


class Application(InteractiveApplication, Protocol):
    """The program behind the REPL."""

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
        """Where conversations are kept."""
        ...

    @property
    def file_changes(self) -> FileChanges:
        """What the agent did to files."""
        ...

    @property
    def directories(self) -> DirectoriesPort:
        """Where the tools may work."""
        ...

    def overview(self) -> Sequence[str]:
        """Return lines for the start: tools, MCP servers, log sinks."""
        ...

    @property
    def servers(self) -> ServersPort:
        """The MCP servers."""
        ...

    async def examine(self) -> "View":
        """Check each part of the program; return the results and how to mend the faults."""
        ...

    def badges(self) -> Sequence[str]:
        """Return words for the status line: the permission mode first, sandbox, MCP servers."""
        ...

    def uncompact(self) -> None:
        """Send the older messages again that a summary, or a limit of messages, left out.

        Raises:
            AgentCliError: Nothing is left out.
        """
        ...

    def clear(self) -> None:
        """Begin a new conversation, and a new session with it."""
        ...
