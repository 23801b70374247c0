"""Keeps the session of the conversation at hand, whichever that is at the moment."""

from pathlib import Path

from agent_cli.conversation import Conversation
from agent_cli.errors import SessionError
from agent_cli.events import Event
from agent_cli.session_store.session import Session
from agent_cli.session_store.store import SessionStore


class Recorder:
    """At most one open session. Its owner calls `record` with every event, before other listeners.

    The other methods end one session and begin the next; call them between runs only, and give the
    conversation they return to the agent.
    """

    def __init__(self, store: SessionStore, workspace: Path) -> None:
        self.session: Session | None = None
        self._store = store
        self._workspace = workspace

    def record(self, event: Event) -> None:
        """Save what *event* changed; nothing while there is no session."""
        if self.session:
            self.session.record(event)

    def follow(self, conversation: Conversation) -> None:
        """Begin a session for *conversation*."""
        self._switch(self._store.create(conversation, self._workspace))

    def resume(self, id: str) -> Conversation:
        """Go on with a session.

        Raises:
            SessionError: As `SessionStore.resume`; the session at hand stays.
        """
        if self.session and self._store.find(id) == self.session.path:
            raise SessionError(f"session {self.session.id} is the one you are in")
        session, conversation = self._store.resume(id)
        self._switch(session)
        return conversation

    def fork(self, id: str, *, at: str | None = None) -> Conversation:
        """Go on with a copy of a session; see `SessionStore.fork`.

        Raises:
            SessionError: As `SessionStore.fork`; the session at hand stays.
        """
        session, conversation = self._store.fork(id, at=at)
        self._switch(session)
        return conversation

    def rewind(self, prompt_id: str) -> Conversation:
        """Go back to before a prompt; see `Session.rewind`.

        Raises:
            SessionError: There is no session, or no such prompt in it.
        """
        if self.session is None:
            raise SessionError("this conversation has no session to rewind")
        return self.session.rewind(prompt_id)

    def close(self) -> None:
        """Save what is left; nothing is recorded any more."""
        self._switch(None)

    def _switch(self, session: Session | None) -> None:
        if self.session:
            self.session.close()
        self.session = session
