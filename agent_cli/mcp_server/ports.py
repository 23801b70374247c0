"""What serving needs of the program."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from agent_cli.contracts.file_changes import FileChangesPort
from agent_cli.contracts.permissions import Mode
from agent_cli.contracts.sessions import SessionInfo
from agent_cli.core.application import ApprovingApplication


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a client asks for besides the prompt; None keeps what holds anyway.

    Attributes:
        session: A saved session to go on with.
        cwd: Where the tools work: the folder the server was started in, or one below it.
        max_cost_usd: At most what the server's own settings allow.
        mode: Yolo only where the server was started with it.
        can_ask: The client puts questions to its user.
    """

    session: str | None = None
    cwd: str | None = None
    model: str | None = None
    max_cost_usd: float | None = None
    mode: Mode | None = None
    can_ask: bool = False


class Application(ApprovingApplication, Protocol):
    """The program behind one call."""

    @property
    def file_changes(self) -> FileChangesPort:
        """What the agent did to files."""
        ...


class AgentBuilder(Protocol):
    """What builds the program of a call, and knows the saved sessions; all of it blocks."""

    def build_for(self, wanted: Wanted) -> Application:
        """Return the program, not yet entered.

        Raises:
            AgentCliError: What is wanted may not be, or cannot be used.
        """
        ...

    def sessions(self) -> Sequence[SessionInfo]:
        """Return the saved sessions, the last used first."""
        ...

    def transcript(self, id: str) -> str:
        """Return a session as Markdown, without secrets; raises SessionError."""
        ...
