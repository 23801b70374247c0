"""The application as sessions over this protocol use it."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from agent_cli.acp.schema import McpServer
from agent_cli.contracts.dialogs import Documents
from agent_cli.contracts.listings import SessionInfo
from agent_cli.contracts.provider import Model
from agent_cli.contracts.servers import ServerStates
from agent_cli.core.application import InteractiveApplication
from agent_cli.system.records import dataclass


@dataclass(frozen=True, slots=True)
class Opening:
    """A client's request to open a session.

    Attributes:
        workspace: The directory in which its tools work.
        directories: More directories they may use.
        servers: MCP servers of this session.
        resume: The id of a saved session to resume.
        fork: The id of a saved session to fork.
    """

    workspace: Path
    directories: tuple[Path, ...] = ()
    servers: tuple[McpServer, ...] = ()
    resume: str | None = None
    fork: str | None = None


class Application(InteractiveApplication, Protocol):
    """The application of one session."""

    @property
    def servers(self) -> ServerStates:
        """The MCP servers."""
        ...

    def use_documents(self, documents: Documents) -> None:
        """Read and write files of the workspace through an editor."""
        ...

    async def keep_session(self) -> None:
        """Store the session although nothing was said yet: the client may load it later."""
        ...

    def part_of_trace(self, headers: Mapping[str, str]) -> AbstractContextManager[None]:
        """Make runs started in the body part of the trace in the W3C *headers*, if any."""
        ...

    async def written_out(self, prompt: str) -> tuple[str, Model | None]:
        """Expand *prompt* if it begins with a command defined by a prompt file.

        Returns:
            The text, and the model it is for; None for the session's model.

        Raises:
            UsageError: The command cannot be used.
        """
        ...


class SessionBuilder(Protocol):
    """Opens sessions."""

    def build(self, opening: Opening) -> Application:
        """Return the application of a session, not yet entered; called in a thread.

        Raises:
            NoCredentials: There are no credentials for a model.
            AgentCliError: The directory or the settings cannot be used.
        """
        ...

    def warm_up(self) -> None:
        """Import the modules that `build` needs; called in a thread."""
        ...

    def sessions(self) -> Sequence[SessionInfo]:
        """Return the saved sessions, the most recently used first; blocks."""
        ...

    def delete(self, id: str) -> None:
        """Delete the saved session *id*, if there is one; blocks.

        Raises:
            SessionError: It is open in another program, or cannot be removed.
        """
        ...

    def check_credentials(self) -> None:
        """Raise NoCredentials unless the environment or the user's files hold a key."""
        ...
