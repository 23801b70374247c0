"""What sessions over this protocol need of the program."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from agent_cli.acp.schema import McpServer
from agent_cli.contracts.documents import Documents
from agent_cli.contracts.provider import Model
from agent_cli.contracts.servers import ServerStates
from agent_cli.contracts.sessions import SessionInfo
from agent_cli.core.application import InteractiveApplication


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


class Application(InteractiveApplication, Protocol):
    """One session's program."""

    @property
    def servers(self) -> ServerStates:
        """The MCP servers."""
        ...

    def use_documents(self, documents: Documents) -> None:
        """Read and write files of the workspace through an editor."""
        ...

    def part_of_trace(self, headers: Mapping[str, str]) -> AbstractContextManager[None]:
        """Make runs that the body starts part of the trace that W3C *headers* name, if any."""
        ...

    async def written_out(self, prompt: str) -> tuple[str, Model | None]:
        """Expand *prompt* where it begins with a command defined by a prompt file.

        Returns:
            The text, and the model it is for; None is the usual one.

        Raises:
            UsageError: The command cannot be used.
        """
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
