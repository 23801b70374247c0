"""The session of the conversation at hand: begins, resumes, forks and rewinds it for the program."""

from collections.abc import Sequence

from agent_cli import paths
from agent_cli.agent import Agent
from agent_cli.conversation import Conversation
from agent_cli.errors import SessionError, UsageError
from agent_cli.events import EventSink, Notice, SessionOpened
from agent_cli.session_store import Recorder, SessionInfo, SessionStore
from agent_cli.startup import Start


class Sessions:
    """Where conversations are kept, or nothing at all when sessions are switched off.

    Subscribe it before anything else: an entry is on disk before somebody shows it.
    """

    def __init__(self, begun: Start, agent: Agent, publish: EventSink) -> None:
        self._begun = begun
        self._agent = agent
        self._publish = publish
        self._store = SessionStore(paths.sessions_dir(), tell=self._warn)
        self._recorder = Recorder(self._store, begun.workspace)
        self._enabled = begun.loaded.settings.session.enabled
        agent.subscribe(self._recorder.record)

    @property
    def id(self) -> str | None:
        """The id of the session at hand."""
        return self._recorder.session.id if self._recorder.session else None

    def begin(self) -> None:
        """Open what the command line asked for: a new session, or an earlier one.

        Raises:
            SessionError: There is no such session, or another process has it open.
            UsageError: An earlier one is wanted and sessions are switched off.
        """
        arguments = self._begun.arguments
        wanted = arguments.resume or arguments.fork or arguments.continue_session
        if not self._enabled:
            if wanted:
                raise UsageError("sessions are switched off: leave --no-session out")
            return
        if arguments.fork:
            self._adopt(self._recorder.fork(arguments.fork))
        elif arguments.resume:
            self.resume(arguments.resume)
        elif arguments.continue_session or arguments.resume is not None:
            self.resume(self._latest())
        else:
            self.follow()

    def follow(self) -> None:
        """Begin a session for the agent's conversation."""
        if self._enabled:
            self._recorder.follow(self._agent.conversation)
            self._opened(resumed=False)

    def list(self) -> Sequence[SessionInfo]:
        """Return all sessions, the newest first."""
        return self._store.list()

    def resume(self, id: str) -> None:
        """Go on with an earlier session; the beginning of its id is enough."""
        self._adopt(self._recorder.resume(id))

    def fork(self, at: str | None = None) -> None:
        """Go on with a copy of this session, up to the entry *at*."""
        self._adopt(self._recorder.fork(self._current(), at=at))

    def rewind(self, prompt_id: str) -> None:
        """Go back to before a prompt; the record keeps everything."""
        self._current()
        self._adopt(self._recorder.rewind(prompt_id))

    def close(self) -> None:
        """Save what is left."""
        self._recorder.close()

    def _latest(self) -> str:
        latest = self._store.latest(self._begun.workspace)
        if latest is None:
            raise SessionError(f"there is no session of {self._begun.workspace} to go on with")
        return latest

    def _current(self) -> str:
        if self.id is None:
            raise SessionError("this conversation is not kept: sessions are switched off")
        return self.id

    def _adopt(self, conversation: Conversation) -> None:
        self._agent.adopt(conversation)
        self._opened(resumed=True)

    def _opened(self, *, resumed: bool) -> None:
        session = self._recorder.session
        if session:
            self._publish(SessionOpened(session.id, str(session.path), resumed))

    def _warn(self, text: str) -> None:
        self._publish(Notice("warning", text))
