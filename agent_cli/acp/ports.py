"""What sessions over this protocol need of the program."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from agent_cli.acp.schema import McpServer
from agent_cli.contracts.dialogs import CallDialogs, ModelDialogs, ServerDialogs
from agent_cli.contracts.documents import Documents
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.permissions import ApprovalFacts, Mode
from agent_cli.contracts.provider import Model
from agent_cli.contracts.servers import ServerState
from agent_cli.contracts.sessions import SessionInfo
from agent_cli.contracts.tooling import Tool
from agent_cli.core.agent import Agent


@dataclass(frozen=True, slots=True)
class Opening:
    """The session a client wants opened.

    Attributes:
        workspace: Where its tools work.
        directories: More directories they may use.
        servers: MCP servers that come with the session.
        resume: The id of a saved session to go on with.
        fork: The id of a saved session to begin with a copy of.
    """

    workspace: Path
    directories: tuple[Path, ...] = ()
    servers: tuple[McpServer, ...] = ()
    resume: str | None = None
    fork: str | None = None


class PermissionsPort(Protocol):
    """The permission policy."""

    mode: Mode

    def asked_about(self, call: ToolCall) -> ApprovalFacts:
        """Return what there is to say about the question whether *call* may run."""
        ...

    async def recall(self, call: ToolCall, tools: Sequence[Tool]) -> None:
        """Find out anew what there is to say about *call*, if another process asked about it."""
        ...

    def remember(self, call: ToolCall) -> None:
        """Allow calls like this one for the rest of the session."""
        ...

    @property
    def project_file(self) -> Path | None:
        """Where rules for this project are kept; None when none may be."""
        ...

    def remember_for_project(self, call: ToolCall) -> None:
        """Allow calls like this one in this project from now on; raises SettingsError."""
        ...

    def is_remembered(self, call: ToolCall) -> bool:
        """Return whether what was remembered since *call* was asked about allows it."""
        ...


class PromptCommand(Protocol):
    """A command that becomes a prompt: a file somebody wrote."""

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
        """What may stand behind it; "" says nothing about it."""
        ...

    @property
    def problem(self) -> str:
        """Why it cannot be used, or ""."""
        ...


class Todo(Protocol):
    """One step of the model's list."""

    @property
    def content(self) -> str:
        """The step."""
        ...

    @property
    def status(self) -> Literal["pending", "in_progress", "completed"]:
        """How far it is."""
        ...

    @property
    def priority(self) -> Literal["high", "medium", "low"]:
        """How much it matters."""
        ...


class ServersPort(Protocol):
    """The MCP servers of a session."""

    def states(self) -> Sequence[ServerState]:
        """Return the state of every server."""
        ...


class Application(AbstractAsyncContextManager["Application"], Protocol):
    """One session's program; entered and left by the same task."""

    @property
    def agent(self) -> Agent:
        """Who is asked."""
        ...

    @property
    def permissions(self) -> PermissionsPort:
        """Who decides about tool calls."""
        ...

    @property
    def workspace(self) -> Path:
        """The directory the tools work in."""
        ...

    @property
    def tools(self) -> Sequence[Tool]:
        """All tools the model has at the moment."""
        ...

    @property
    def models(self) -> Mapping[str, str]:
        """Aliases and the model ids they stand for."""
        ...

    @property
    def servers(self) -> ServersPort:
        """The MCP servers."""
        ...

    @property
    def why_kept_back(self) -> Callable[[Path], str]:
        """Says why the model may not read a file, or ""."""
        ...

    @property
    def note_attached(self) -> Callable[[Path, bytes], None]:
        """Gets a file the model reads whole with a prompt: it may be edited without a look."""
        ...

    def find_model(self, name: str) -> Model:
        """Return the model *name*, an alias or an id; warn of an unknown id.

        Raises:
            UsageError: The name cannot be a model; the sentence says what can.
        """
        ...

    def use_documents(self, documents: Documents) -> None:
        """Read and write files of the workspace through an editor."""
        ...

    def prompt_commands(self) -> Sequence[PromptCommand]:
        """Return the commands that are prompts somebody wrote."""
        ...

    async def written_out(self, prompt: str) -> str:
        """Return what *prompt* says: a command's text where it begins with one.

        Raises:
            UsageError: The command cannot be used.
        """
        ...

    def todos(self) -> Sequence[Todo]:
        """Return the steps the model noted for its task, in order."""
        ...

    def answer(
        self, servers: ServerDialogs, model: ModelDialogs, calls: CallDialogs | None = None
    ) -> None:
        """Put questions of MCP servers, the model and its agents to these."""
        ...

    def context_tokens(self) -> int:
        """Return the tokens of the next request, as the API counted them or estimated."""
        ...

    def context_parts(self) -> Mapping[str, int]:
        """Return the estimated tokens of the next request by what they are."""
        ...

    async def compact(self, focus: str) -> None:
        """Summarise older messages now; raises AgentCliError when there is nothing to."""
        ...


class SessionBuilder(Protocol):
    """What opens sessions."""

    def build(self, opening: Opening) -> Application:
        """Return the program of a session, not yet entered; called in a thread.

        Raises:
            NoCredentials: No model can be asked.
            AgentCliError: The folder or the settings cannot be used.
        """
        ...

    def warm_up(self) -> None:
        """Import what `build` needs; called in a thread."""
        ...

    def sessions(self) -> Sequence[SessionInfo]:
        """Return the saved sessions, the last used first; blocks."""
        ...

    def check_credentials(self) -> None:
        """Raise NoCredentials unless the environment or the user's files hold a key."""
        ...
