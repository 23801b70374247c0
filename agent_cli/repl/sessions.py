"""The port from the REPL to the stored sessions."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from agent_cli.contracts.sessions import SessionInfo, SessionMatch

ExportFormat: TypeAlias = Literal["md", "html", "json"]


class SessionsPort(Protocol):
    """Port to the sessions. Only `list`, `search`, `id` and `path` may be called during a run.

    Methods that change the conversation raise `SessionError` on failure, without any change.
    """

    @property
    def id(self) -> str | None:
        """The id of the session that stores the conversation."""
        ...

    @property
    def path(self) -> Path | None:
        """The file of that session."""
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

    def export(self, to: ExportFormat) -> Path:
        """Write this session, without secrets, into the workspace and return the file."""
        ...
