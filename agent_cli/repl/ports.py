"""What the REPL needs of the program behind it; the composition root provides it."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from agent_cli.contracts.dialogs import CallDialogs, ModelDialogs, ServerDialogs
from agent_cli.contracts.jobs import JobInfo
from agent_cli.contracts.provider import Model
from agent_cli.contracts.sessions import SessionInfo
from agent_cli.contracts.tooling import Tool
from agent_cli.core.agent import Agent
from agent_cli.repl.file_changes import FileChanges
from agent_cli.repl.mcp.ports import ServersPort
from agent_cli.repl.permissions import PermissionsPort
from agent_cli.repl.todos import Todo

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


class PromptCommand(Protocol):
    """A command that becomes a prompt: a file somebody wrote, or a prompt of an MCP server."""

    @property
    def name(self) -> str:
        """What is typed behind the slash; "" for what has a problem instead of a name."""
        ...

    @property
    def help(self) -> str:
        """What it is for, in a few words."""
        ...

    @property
    def argument(self) -> str:
        """What may stand behind it, as `/help` shows it; "" shows nothing."""
        ...

    @property
    def source(self) -> str:
        """Where it comes from, in a word or two: "yours", "project", "MCP docs"."""
        ...

    @property
    def problem(self) -> str:
        """Why it cannot be used, in one sentence, or ""."""
        ...

    async def text(self, argument: str) -> str:
        """Return what is sent to the model, given what was typed behind the name.

        Raises:
            AgentCliError: It cannot be made.
        """
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


class Application(AbstractAsyncContextManager["Application"], Protocol):
    """A program that is ready to be asked.

    Entered once, in the event loop, before the first prompt is sent, and left at the end by the
    same task. Entering must not wait for the world: servers connect in the background and report
    by events. Leaving ends every child process.
    """

    @property
    def agent(self) -> Agent:
        """Who is asked."""
        ...

    @property
    def permissions(self) -> PermissionsPort:
        """Who remembers "always this session"."""
        ...

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
    def workspace(self) -> Path:
        """The directory the tools work in."""
        ...

    @property
    def tools(self) -> Sequence[Tool]:
        """All tools the model has at the moment, those of MCP servers included."""
        ...

    @property
    def models(self) -> Mapping[str, str]:
        """Aliases and the model ids they stand for."""
        ...

    def prompt_commands(self) -> Sequence[PromptCommand]:
        """Return the commands that are not built in, as they are now; asked often, so quick.

        Of two with one name the first counts.
        """
        ...

    @property
    def why_kept_back(self) -> Callable[[Path], str]:
        """Says why the model may not read a file, or ""."""
        ...

    @property
    def note_attached(self) -> Callable[[Path, bytes], None]:
        """Gets a file the model reads whole with a prompt: it may be edited without a look."""
        ...

    @property
    def directories(self) -> DirectoriesPort:
        """Where the tools may work."""
        ...

    def find_model(self, name: str) -> Model:
        """Return the model *name*, an alias or an id; warn of an unknown id.

        Raises:
            UsageError: The name cannot be a model; the sentence says what can.
        """
        ...

    def todos(self) -> Sequence[Todo]:
        """Return the steps the model noted for its task, in order."""
        ...

    def overview(self) -> Sequence[str]:
        """Return lines for the start: tools, MCP servers, log sinks."""
        ...

    @property
    def servers(self) -> ServersPort:
        """The MCP servers."""
        ...

    def answer(
        self, servers: ServerDialogs, model: ModelDialogs, calls: CallDialogs | None = None
    ) -> None:
        """Put questions of MCP servers, the model and its agents to these.

        Before, they are declined.
        """
        ...

    async def examine(self) -> "View":
        """Check each part of the program; return the results and how to mend the faults."""
        ...

    def badges(self) -> Sequence[str]:
        """Return words for the status line: the permission mode first, sandbox, MCP servers."""
        ...

    async def compact(self, focus: str) -> None:
        """Summarise older messages now; *focus* is what the summary should keep, or "".

        Events tell what came of it.

        Raises:
            AgentCliError: There is nothing to compact, or it did not work.
        """
        ...

    def uncompact(self) -> None:
        """Send the older messages again that a summary, or a limit of messages, left out.

        Raises:
            AgentCliError: Nothing is left out.
        """
        ...

    def context_parts(self) -> Mapping[str, int]:
        """Return the estimated tokens of the next request by what they are."""
        ...

    def context_tokens(self) -> int:
        """Return the tokens of the next request, as the API counted them or estimated."""
        ...

    def clear(self) -> None:
        """Begin a new conversation, and a new session with it."""
        ...
