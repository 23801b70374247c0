"""The application as the MCP server uses it."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from agent_cli.contracts.dialogs import ModelDialogs
from agent_cli.contracts.file_changes import FileChangesPort
from agent_cli.contracts.listings import SessionInfo
from agent_cli.contracts.permission_modes import Mode
from agent_cli.core.application import ApprovingApplication
from agent_cli.system.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """A client's request besides the prompt; None keeps the server's own value.

    Attributes:
        session: The id of a saved session to resume.
        cwd: The directory of the tools: the server's own working directory, or one below it.
        max_cost_usd: At most the limit of the server's own settings.
        mode: At most as permissive as the server's own.
        can_ask: Whether the client can put questions to its user.
    """

    session: str | None = None
    cwd: str | None = None
    model: str | None = None
    max_cost_usd: float | None = None
    mode: Mode | None = None
    can_ask: bool = False


class Application(ApprovingApplication, Protocol):
    """The application behind one call."""

    @property
    def file_changes(self) -> FileChangesPort:
        """The agent's changes to files."""
        ...

    @property
    def held_microdollars(self) -> int:
        """The possible cost of this prompt's calls that broke off."""
        ...

    def answer_model(self, model: ModelDialogs) -> None:
        """Let these dialogs answer the model."""
        ...

    def allow_losses(self, command: str) -> None:
        """Let *command* go on however many files it takes: it was asked about before it began."""
        ...

    @property
    def refused_commands(self) -> Mapping[str, Sequence[str]]:
        """Commands stopped at the files they take as nobody could be asked; rules to allow each."""
        ...


class AgentBuilder(Protocol):
    """Builds the application of a call, and knows the saved sessions; all methods block."""

    def build_for(self, request: RunRequest) -> Application:
        """Return the application, not yet entered.

        Raises:
            AgentCliError: The request is not allowed, or cannot be met.
        """
        ...

    def sessions(self) -> Sequence[SessionInfo]:
        """Return the saved sessions, the most recently used first."""
        ...

    def transcript(self, id: str) -> str:
        """Return a session as Markdown, without secrets; raises SessionError."""
        ...
