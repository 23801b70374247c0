"""The session of the current conversation: begin, resume, fork and rewind it."""

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from agent_cli.app.models import go_on_as_before, model_of_waiting
from agent_cli.app.option_table import CHOOSE_SESSION
from agent_cli.app.startup import StartupContext
from agent_cli.contracts.errors import AgentBusy, SessionError, SessionNotFound, UsageError
from agent_cli.contracts.events import Event, EventSink, Notice, SessionOpened
from agent_cli.contracts.timeline import Prompt, ToolOutput
from agent_cli.contracts.wording import SESSIONS_OFF
from agent_cli.core.agent import Agent
from agent_cli.core.conversation import Conversation
from agent_cli.core.message_queue import told_of_outputs
from agent_cli.session_store import Session, SessionStore
from agent_cli.session_store.history import cost_since, read_header
from agent_cli.session_store.records import Header
from agent_cli.system import paths
from agent_cli.system.event_loop import in_background
from agent_cli.system.redaction import Redactor

if TYPE_CHECKING:
    from agent_cli.contracts.listings import SessionInfo, SessionMatch
    from agent_cli.session_store.export import Format

_FOUND_MAX: Final = 50

_Opened: TypeAlias = tuple[Session, Conversation]
_Drop: TypeAlias = Callable[[Session], None]


class Sessions:
    """Stores the current conversation; stores nothing when sessions are switched off.

    Create it before anything else subscribes to the agent, so that an entry is on disk before it is
    shown. Call all methods but `list` and `search` between runs only. Reading a long session takes
    a second and happens in a thread, so that the prompt stays responsive.
    """

    def __init__(
        self,
        startup: StartupContext,
        agent: Agent,
        publish: EventSink,
        *,
        on_copy: Callable[[str, str], None] = lambda _original, _copy: None,
    ) -> None:
        """Open nothing yet; *on_copy* is called with a session that is a copy of another one."""
        self._on_copy = on_copy
        self._startup = startup
        self._agent = agent
        self._publish = publish
        self._store = SessionStore(paths.sessions_dir(), tell=self._warn)
        self._enabled = startup.loaded.settings.session.enabled
        self._session: Session | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        agent.subscribe(self._record)

    @property
    def id(self) -> str | None:
        """The id of the current session."""
        return self._session.id if self._session else None

    @property
    def path(self) -> Path | None:
        """The file of the current session."""
        return self._session.path if self._session else None

    @property
    def workspace(self) -> str:
        """The directory in which the current session works."""
        return str(self._startup.workspace)

    @property
    def is_behind(self) -> bool:
        """Whether a part of the current session could not be saved so far."""
        return bool(self._session and self._session.is_behind)

    async def begin(self) -> None:
        """Open the session that the command line asks for: a new or an earlier one.

        Raises:
            SessionError: There is no such session, or another process has it open.
            UsageError: An earlier one is requested although sessions are switched off.
        """
        arguments = self._startup.arguments
        latest = arguments.continue_session or arguments.resume == CHOOSE_SESSION
        if not self._enabled:
            if latest or arguments.resume or arguments.fork is not None or arguments.name:
                raise UsageError(SESSIONS_OFF)
            return
        if arguments.fork is not None:
            id, at = self._branch_point(arguments.fork)
            await self._go_on_with_copy(id, at=at)
        elif latest:
            await self.resume(self._store.latest(self._startup.workspace))
        elif arguments.resume:
            await self.resume(arguments.resume)
        else:
            self.follow()
        if arguments.name:
            self.rename(arguments.name)

    def follow(self) -> None:
        """Begin a session for the agent's conversation."""
        if self._enabled:
            conversation = self._agent.conversation
            self._keep(self._store.create(conversation, self._startup.workspace), resumed=False)

    async def keep(self) -> None:
        """Store this session although nothing was said yet: from now on its id can be resumed."""
        from agent_cli.session_store.upkeep import remove_unused  # rare

        if self._session:
            self._session.keep()
            await in_background(lambda: remove_unused(self._store))

    def keep_agent(
        self, agent: Agent, *, parent: str, tool_call_id: str, name: str
    ) -> Callable[[], None]:
        """Store the conversation of *agent*, a subagent called *name* of the session *parent*.

        Returns:
            A function that ends the recording.
        """
        if self._session is None:
            return lambda: None
        store = self._store.of_agents(self._session.id)
        session = store.create(
            agent.conversation,
            self._startup.workspace,
            parent=parent,
            parent_at=tool_call_id,
            agent=name,
        )
        agent.subscribe(session.record)
        return session.close

    def agents(self) -> Sequence["SessionInfo"]:
        """Return the sessions of subagents of the current session, newest first."""
        return self._store.of_agents(self._session.id).list() if self._session else ()

    def cost_of_agents(self, prompt: Prompt) -> int:
        """Return the micro-dollars, reserved ones included, of agents since *prompt* began.

        Agents in the background that an earlier prompt started count with what they cost since.
        """
        if not any(isinstance(out, ToolOutput) for out in prompt.output):
            return 0
        worked = (info for info in self.agents() if info.updated_at_ms >= prompt.at_ms)
        return sum(cost_since(info, prompt.at_ms) for info in worked)

    def cost_of_all_agents(self) -> int:
        """Return the micro-dollars, reserved ones included, of the session's agents so far."""
        return sum(cost_since(info, 0) for info in self.agents())

    def list(self) -> Sequence["SessionInfo"]:
        """Return all sessions, newest first, including sessions of other agents."""
        from agent_cli.app.other_sessions import listed_with  # rare

        return listed_with(self._store.list())

    def search(self, words: Sequence[str]) -> Sequence["SessionMatch"]:
        """Return the sessions in which an entry has all *words*, the most recently used first.

        Raises:
            SessionError: The search took too long.
        """
        from agent_cli.app.other_sessions import search_others
        from agent_cli.session_store.transcripts import search  # rare

        redact = Redactor.of(self._startup.environment).text
        own = search(self._store, words, redact=redact)
        return list(islice(chain(own, search_others(words, redact=redact)), _FOUND_MAX))

    async def resume(self, id: str) -> None:
        """Continue an earlier session, or a copy of another agent's; a prefix of its id is enough.

        Raises:
            SessionError: As `SessionStore.resume`, it is this one, or sessions are switched off,
                as it would be written to; the current one stays open.
        """
        if not self._enabled:
            raise SessionError(SESSIONS_OFF)
        if await self._resumed_other(id):
            return
        found = self._store.find(id)
        if self._session and found == self._session.path:
            raise SessionError(f"session {self._session.id} is already open here")
        self._tell_if_moved(await self._switch(lambda: self._store.resume(found.stem)))

    async def _resumed_other(self, id: str) -> bool:
        """Continue a copy of another agent's session, if only such a one has that *id*."""
        try:
            self._store.find(id)
        except SessionNotFound:
            from agent_cli.app.other_sessions import copy_of  # rare
            from agent_cli.foreign_sessions.files import find_foreign

            session = find_foreign(id)
            if session is None:
                raise
        else:
            return False
        here = self._startup.workspace
        await self._switch(
            lambda: copy_of(session, self._store, here), drop=self._remove_copy, is_ours=False
        )
        was = session.describe().workspace
        there = f" about {was}" if was not in ("", str(here)) else ""
        self._publish(
            Notice("info", f"this is a copy of a session of {session.program}{there}, read only")
        )
        return True

    async def fork(self, at: str | None = None) -> None:
        """Continue a copy of this session, up to the entry *at*.

        Raises:
            SessionError: It has no such entry, is not saved whole, or sessions are switched off.
        """
        await self._go_on_with_copy(self._kept().id, at=at)

    def rewind(self, prompt_id: str) -> None:
        """Return to the state before a prompt; the record keeps everything.

        Raises:
            AgentBusy: A run is going on; nothing was recorded.
            SessionError: There is no such prompt, or no session.
        """
        self._agent.require_idle()
        session = self._current()
        self._agent.adopt(session.rewind(prompt_id))
        self._opened(session, resumed=True)

    def rename(self, name: str) -> None:
        """Name this session, for lists and to resume it by.

        Raises:
            SessionError: Sessions are switched off, or nothing of *name* can be shown.
        """
        from agent_cli.session_store.listing import as_title  # rare

        if not as_title(name):
            raise SessionError(f"a session cannot be named {name!r}: no character of it is shown")
        self._current().rename(name)

    async def export(self, to: "Format", name: str = "") -> Path:
        """Write this session, without secrets, to *name* or a file of its id; return the file.

        A relative *name* lies in the workspace.

        Raises:
            SessionError: It is not saved whole, *name* exists, or the file cannot be written.
        """
        from agent_cli.session_store.export import export, write_new  # rare

        id = self._kept().id
        redact = Redactor.of(self._startup.environment).text
        path = self._startup.workspace / Path(name or f"session-{id}.{to}").expanduser()
        if name and os.path.lexists(path):
            raise SessionError(f"{path} exists already; name another file")
        await asyncio.to_thread(
            lambda: write_new(path, export(self._store.read(id), to, redact=redact))
        )
        return path

    def close(self) -> None:
        """Write the rest to disk and stop recording."""
        if self._session:
            self._session.close()
            self._session = None

    def _current(self) -> Session:
        if self._session is None:
            raise SessionError(SESSIONS_OFF)
        return self._session

    def _kept(self) -> Session:
        session = self._current()
        session.catch_up()
        if session.is_behind:
            raise SessionError(
                "not done: a part of this session is not saved, and a copy would lack it; try again"
                f" once {session.path} can be written"
            )
        if not session.path.exists():
            if self._agent.conversation.prompts:
                raise SessionError(f"not done: the file of this session is gone: {session.path}")
            raise SessionError("nothing was said in this session yet")
        return session

    def _branch_point(self, requested: str) -> tuple[str, str | None]:
        """Return the session and the entry of SESSION[@ENTRY]."""
        with suppress(SessionNotFound):
            self._store.find(requested)  # a name may have an @ of its own
            return requested, None
        id, mark, at = requested.rpartition("@")
        if mark and not at:
            raise UsageError(
                f"--fork {id}@ needs an entry: `agent-cli sessions show {id} --entries` lists them"
            )
        return (id, at) if mark else (requested, None)

    async def _go_on_with_copy(self, id: str, *, at: str | None) -> None:
        path = self._store.find(id)
        original = read_header(path)

        def forked() -> _Opened:
            here = self._startup.workspace
            session, conversation = self._store.fork(path.stem, workspace=here, at=at)
            self._on_copy(path.stem, session.id)
            return session, conversation

        await self._switch(forked, drop=self._remove_copy)
        self._tell_if_moved(original)

    def _tell_if_moved(self, header: Header | None) -> None:
        here = str(self._startup.workspace)
        if header and header.workspace not in ("", here):
            self._warn(
                f"this session was about {header.workspace}; from now on its tools work in {here}"
            )

    def _remove_copy(self, copy: Session) -> None:
        from agent_cli.session_store.upkeep import delete_unused  # rare

        copy.close()
        in_background(lambda: delete_unused(self._store, copy.id))

    async def _switch(
        self,
        open_session: Callable[[], _Opened],
        *,
        drop: _Drop = lambda opened: opened.close(),
        is_ours: bool = True,
    ) -> Header:
        """Continue the session from *open_session*, run in a thread; on failure *drop* that one.

        *is_ours*: it is no copy of another agent's session, whose models are that agent's.
        """
        self._loop = asyncio.get_running_loop()
        opening = in_background(open_session)
        try:
            session, conversation = await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(partial(_drop_unused, drop))
            raise
        try:
            self._agent.require_idle()
            if is_ours:
                go_on_as_before(self._startup, self._agent, conversation, self._publish)
            model = model_of_waiting(self._startup, self._agent, conversation, self._publish)
            self._agent.adopt(conversation, model=model)
        except AgentBusy:
            drop(session)
            raise
        self._keep(session, resumed=True)
        if sentence := told_of_outputs(conversation):
            self._publish(Notice("info", sentence))
        return session.header

    def _keep(self, session: Session, *, resumed: bool) -> None:
        before = self._session
        self.close()
        if before and before.is_behind:
            self._warn(f"the end of session {before.id} could not be saved, and is lost")
        self._session = session
        self._opened(session, resumed=resumed)

    def _opened(self, session: Session, *, resumed: bool) -> None:
        self._publish(SessionOpened(session.id, str(session.path), resumed))

    def _record(self, event: Event) -> None:
        if self._session:
            self._session.record(event)

    def _warn(self, text: str) -> None:
        publish = partial(self._publish, Notice("warning", text))
        try:
            asyncio.get_running_loop()
        except RuntimeError:  # in the thread that opens a session, where no event may be published
            if self._loop:
                self._loop.call_soon_threadsafe(publish)
                return
        publish()


def _drop_unused(drop: _Drop, opening: asyncio.Future[_Opened]) -> None:
    if opening.exception() is None:
        drop(opening.result()[0])
