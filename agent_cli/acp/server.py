"""The protocol's methods: the handshake, authentication, and sessions with their prompts."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from agent_cli.acp import (
    AUTH_REQUIRED,
    INVALID_PARAMS,
    INVALID_REQUEST,
    RESOURCE_NOT_FOUND,
    RpcFault,
)
from agent_cli.acp.client import EditorClient
from agent_cli.acp.connection import Answer, Params, RpcConnection, Streams
from agent_cli.acp.options import set_mode, set_option
from agent_cli.acp.ports import Application, Opening, SessionBuilder
from agent_cli.acp.schema import (
    AuthenticateParams,
    ClientCapabilities,
    InitializeParams,
    ListParams,
    ModeParams,
    NewSessionParams,
    OptionParams,
    PromptParams,
    SavedSessionParams,
    SessionParams,
    checked,
)
from agent_cli.acp.session import OpenSession
from agent_cli.contracts.errors import (
    KEYS_URL,
    NoCredentials,
    SessionError,
    SettingsError,
    UsageError,
)
from agent_cli.contracts.listings import SessionInfo
from agent_cli.contracts.timeline import Json
from agent_cli.system.event_loop import in_background
from agent_cli.system.logger import logger
from agent_cli.system.paths import real_path
from agent_cli.version import __version__

PROTOCOL_VERSION: Final = 1
INITIALIZED: Final[dict[str, Json]] = {
    "protocolVersion": PROTOCOL_VERSION,
    "agentInfo": {"name": "agent-cli", "title": "agent-cli", "version": __version__},
    "agentCapabilities": {
        "loadSession": True,
        "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
        "mcpCapabilities": {"http": True, "sse": True},
        "sessionCapabilities": {
            "list": {},
            "resume": {},
            "fork": {},
            "close": {},
            "delete": {},
            "additionalDirectories": {},
        },
    },
    "authMethods": [
        {
            "type": "env_var",
            "id": "api-key",
            "name": "Anthropic API key",
            "description": "Set ANTHROPIC_API_KEY, or put it into the user's .env",
            "vars": [{"name": "ANTHROPIC_API_KEY", "label": "API key"}],
            "link": KEYS_URL,
        },
        {
            "type": "env_var",
            "id": "auth-token",
            "name": "Bearer token",
            "description": "Set ANTHROPIC_AUTH_TOKEN, as gateways use it",
            "vars": [{"name": "ANTHROPIC_AUTH_TOKEN", "label": "Token"}],
        },
    ],
}
METHOD_IDS: Final = ("api-key", "auth-token")


_PAGE: Final = 50
_log = logger(__name__)


class AcpServer:
    """Serves one client: any number of sessions, each with its own application."""

    def __init__(self, program: SessionBuilder, streams: Streams) -> None:
        """Set up the methods; `serve` starts answering."""
        self._program = program
        self._sessions: dict[str, OpenSession] = {}
        # One at a time opens or ends the same session; an editor may close one that still loads.
        self._changing: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._client = ClientCapabilities()
        self._is_initialized = False
        self._hosts = asyncio.TaskGroup()
        self._connection = RpcConnection(
            streams,
            {
                "initialize": self._initialize,
                "authenticate": self._authenticate,
                **{
                    f"session/{name}": self._after_handshake(method)
                    for name, method in self._session_methods().items()
                },
            },
            {"session/cancel": self._cancel},
        )

    def _session_methods(self) -> dict[str, Callable[[Params], Awaitable[Answer]]]:
        return {
            "new": self._new,
            "load": self._load,
            "resume": self._resume,
            "fork": self._fork,
            "list": self._list,
            "close": self._close,
            "delete": self._delete,
            "prompt": self._prompt,
            "set_mode": self._set_mode,
            "set_config_option": self._set_option,
        }

    async def serve(self) -> None:
        """Serve until the client is gone; every session has ended on return."""
        async with self._hosts:
            try:
                await self._connection.serve()
            finally:
                for session in self._sessions.values():
                    session.closed.set()

    def _after_handshake(
        self, method: Callable[[Params], Awaitable[Answer]]
    ) -> Callable[[Params], Awaitable[Answer]]:
        def answer(params: Params) -> Awaitable[Answer]:
            if not self._is_initialized:
                raise RpcFault(INVALID_REQUEST, "send initialize first")
            return method(params)

        return answer

    async def _initialize(self, params: Params) -> Answer:
        request = checked(InitializeParams, params)
        self._client = request.client_capabilities or ClientCapabilities()
        self._is_initialized = True
        return Answer(INITIALIZED, then=self._warm_up)

    def _warm_up(self) -> None:
        """Import the modules of sessions while the client handles the handshake."""
        warming = in_background(self._program.warm_up)
        warming.add_done_callback(lambda done: done.exception())

    async def _authenticate(self, params: Params) -> Answer:
        if checked(AuthenticateParams, params).method_id not in METHOD_IDS:
            raise RpcFault(INVALID_PARAMS, f"methodId must be one of {', '.join(METHOD_IDS)}")
        try:
            self._program.check_credentials()
        except NoCredentials as error:
            raise RpcFault(AUTH_REQUIRED, str(error)) from error
        return Answer({})

    async def _new(self, params: Params) -> Answer:
        request = checked(NewSessionParams, params)
        session = await self._open(_opening(request))
        return _opened(session, {"sessionId": session.id})

    async def _load(self, params: Params) -> Answer:
        session = await self._reopened(params)
        session.replay()
        return _opened(session, {})

    async def _resume(self, params: Params) -> Answer:
        return _opened(await self._reopened(params), {})

    async def _fork(self, params: Params) -> Answer:
        request = checked(SavedSessionParams, params)
        session = await self._open(_opening(request, fork=request.session_id))
        return _opened(session, {"sessionId": session.id})

    async def _reopened(self, params: Params) -> OpenSession:
        request = checked(SavedSessionParams, params)
        async with self._changing[request.session_id]:
            await self._end(request.session_id)
            return await self._open(_opening(request, resume=request.session_id))

    async def _list(self, params: Params) -> Answer:
        request = checked(ListParams, params)
        saved = await in_background(self._program.sessions)
        folder = None if request.cwd is None else str(real_path(request.cwd))  # as sessions keep it
        shown = [
            info
            for info in saved
            if info.workspace and not info.problem and folder in (None, info.workspace)
        ]
        ids = [info.id for info in shown]
        if request.cursor is not None and request.cursor not in ids:
            raise RpcFault(INVALID_PARAMS, "cursor: the list has changed; begin without one")
        start = ids.index(request.cursor) + 1 if request.cursor is not None else 0
        page = shown[start : start + _PAGE]
        result: dict[str, Json] = {"sessions": [_described(info, request.cwd) for info in page]}
        if start + _PAGE < len(shown):
            result["nextCursor"] = page[-1].id
        return Answer(result)

    async def _close(self, params: Params) -> Answer:
        id = checked(SessionParams, params).session_id
        async with self._changing[id]:
            await self._session(id).end()
        return Answer({})

    async def _delete(self, params: Params) -> Answer:
        id = checked(SessionParams, params).session_id
        async with self._changing[id]:
            await self._end(id)
            try:
                await in_background(lambda: self._program.delete(id))
            except SessionError as error:
                raise RpcFault(INVALID_REQUEST, str(error)) from error
        return Answer({})

    async def _prompt(self, params: Params) -> Answer:
        request = checked(PromptParams, params)
        session = self._session(request.session_id)
        with session.app.part_of_trace(request.trace):
            return Answer(await session.prompt(request.prompt))

    async def _set_mode(self, params: Params) -> Answer:
        request = checked(ModeParams, params)
        session = self._session(request.session_id)
        set_mode(session.app, request.mode_id)
        return Answer({}, then=session.tell_settings)

    async def _set_option(self, params: Params) -> Answer:
        request = checked(OptionParams, params)
        session = self._session(request.session_id)
        await set_option(session.app, request.config_id, request.value)
        options = session.state()["configOptions"]
        return Answer({"configOptions": options})

    def _cancel(self, params: Params) -> None:
        self._session(checked(SessionParams, params).session_id).cancel()

    def _session(self, id: str) -> OpenSession:
        if session := self._sessions.get(id):
            return session
        raise RpcFault(RESOURCE_NOT_FOUND, f"session {id!r} is not open here; load it first")

    async def _open(self, opening: Opening) -> OpenSession:
        """Return a session whose application runs.

        Raises:
            RpcFault: The session cannot be opened.
        """
        opened: asyncio.Future[OpenSession] = asyncio.get_running_loop().create_future()
        try:
            app = await in_background(lambda: self._program.build(opening))
            self._hosts.create_task(self._host(app, opened))
            return await opened
        except NoCredentials as error:
            raise RpcFault(AUTH_REQUIRED, str(error)) from error
        except SessionError as error:
            raise RpcFault(RESOURCE_NOT_FOUND, str(error)) from error
        except (UsageError, SettingsError) as error:
            raise RpcFault(INVALID_PARAMS, str(error)) from error

    async def _host(self, app: Application, opened: "asyncio.Future[OpenSession]") -> None:
        """Run one session's application until it is closed; its failure ends no other session."""
        session: OpenSession | None = None
        try:
            async with app:
                id = app.agent.conversation.id
                session = OpenSession(app, EditorClient(self._connection, id, self._client))
                self._sessions[id] = session
                try:
                    await app.keep_session()
                    if opened.cancelled():  # the client cancelled its request
                        return
                    opened.set_result(session)
                    await _until_closed(session)
                finally:
                    del self._sessions[id]
        except Exception as error:
            if not opened.done():
                opened.set_exception(error)
            else:
                _log.error("session ended", exc_info=True)
        finally:
            if session:
                session.ended.set()

    async def _end(self, id: str) -> None:
        """Close the session *id* if it is open, and wait until everything in it has ended."""
        if session := self._sessions.get(id):
            await session.end()


async def _until_closed(session: OpenSession) -> None:
    async with asyncio.TaskGroup() as group:
        asking = group.create_task(session.ask_unprompted())
        await session.closed.wait()
        asking.cancel()


def _opening(
    request: NewSessionParams, *, resume: str | None = None, fork: str | None = None
) -> Opening:
    return Opening(
        Path(request.cwd),
        tuple(map(Path, request.additional_directories or ())),
        request.mcp_servers or (),
        resume=resume,
        fork=fork,
    )


def _opened(session: OpenSession, result: dict[str, Json]) -> Answer:
    return Answer({**result, **session.state()}, then=session.release)


def _described(info: SessionInfo, cwd: str | None) -> dict[str, Json]:
    """Return the entry of *info*; a client knows its folder as *cwd*, if it asked for one."""
    updated = datetime.fromtimestamp(info.updated_at_ms / 1000, UTC)
    return {
        "sessionId": info.id,
        "cwd": cwd or info.workspace,
        "title": info.title,
        "updatedAt": updated.isoformat().replace("+00:00", "Z"),
    }
