"""Copies of the conversation in Claude Code's format, for the hooks of a session."""

from collections.abc import Mapping
from pathlib import Path

from agent_cli.contracts.agents import WorkingAgent
from agent_cli.contracts.timeline import Json
from agent_cli.core.conversation import Conversation
from agent_cli.hooks.claude_transcript import TranscriptCopy
from agent_cli.sandbox.own_folder import OwnFolder
from agent_cli.system.logger import logger

_log = logger(__name__)


class HookTranscripts:
    """The copies of one session, in a folder that only the user may enter; `close` removes it.

    A copy is written when a hook is about to read it. The record itself is no such file: it has
    another form, and commands in the sandbox do not see it.
    """

    def __init__(self, workspace: Path) -> None:
        """Write nothing yet."""
        self._workspace = workspace
        self._own: OwnFolder | None = None
        self._copies: dict[Path, TranscriptCopy] = {}

    @property
    def folder(self) -> Path:
        """The folder of the copies.

        Raises:
            OSError: The disk is full.
        """
        if self._own is None:
            self._own = OwnFolder()
        return self._own.path

    def of_session(self, conversation: Conversation, session_id: str) -> str:
        """Return the current copy of the session's *conversation*; "" if it cannot be written."""
        about: dict[str, Json] = {"sessionId": session_id, "isSidechain": False}
        return self._updated(conversation, f"{session_id or 'session'}.jsonl", about)

    def of_agent(self, conversation: Conversation, agent: WorkingAgent, session_id: str) -> str:
        """Return the current copy of the *conversation* of a subagent, likewise."""
        about: dict[str, Json] = {
            "sessionId": session_id,
            "isSidechain": True,
            "agentId": agent.id,
            "cwd": str(agent.directory),
        }
        name = f"{session_id or 'session'}/subagents/agent-{agent.id}.jsonl"
        return self._updated(conversation, name, about)

    def close(self) -> None:
        """Remove the copies."""
        if self._own is not None:
            self._own.remove()

    def _updated(self, conversation: Conversation, name: str, about: Mapping[str, Json]) -> str:
        try:
            path = self.folder / name
            copy = self._copies.setdefault(path, TranscriptCopy(path, self._workspace, about))
            return str(copy.update(conversation.prompts))
        except OSError as error:
            _log.warning("no transcript for hooks", cause=str(error))
            return ""
