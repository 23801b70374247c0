"""Requests to the client of one session: decisions about calls, forms, its editor as `Documents`.

About calls the rules are those of the terminal: only an explicit answer allows one, "always" is
offered only if the policy could add a rule, and the question shows the whole effect of the call.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import replace
from pathlib import Path
from threading import get_ident
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

from agent_cli.acp import ConnectionLost, RpcFault
from agent_cli.acp.connection import RpcConnection
from agent_cli.acp.content import text
from agent_cli.acp.ports import Application
from agent_cli.acp.schema import ClientCapabilities
from agent_cli.contracts.dialogs import Approved, Decision, Filled, Rejected
from agent_cli.contracts.errors import SettingsError, ToolError
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.timeline import Json
from agent_cli.core.call_decisions import NOBODY_ALLOWS, STOPPED, UNWANTED
from agent_cli.system.logger import logger
from agent_cli.system.sanitize import reveal
from agent_cli.terminal.planned_change import written_by

ChoiceKind: TypeAlias = Literal["allow_once", "allow_always", "reject_once"]


class PermissionOption(NamedTuple):
    """An answer the user can pick."""

    id: str
    name: str
    kind: ChoiceKind


class EditorClient:
    """The client of one session.

    Every method may raise `RpcFault` (the client refused) or `ConnectionLost`.
    """

    def __init__(
        self, connection: RpcConnection, session_id: str, capabilities: ClientCapabilities
    ) -> None:
        """Use *connection* to reach the client for the session *session_id*."""
        self._connection = connection
        self._session_id = session_id
        files, questions = capabilities.fs, capabilities.elicitation
        self.reads_files = bool(files and files.read_text_file)
        self.writes_files = bool(files and files.write_text_file)
        self.shows_forms = bool(questions and questions.form is not None)
        self.shows_pages = bool(questions and questions.url is not None)

    def update(self, update: dict[str, Json]) -> None:
        """Send a session update."""
        self._connection.notify("session/update", {"sessionId": self._session_id, "update": update})

    async def choose(
        self, call: Mapping[str, Json], choices: Sequence[PermissionOption]
    ) -> str | None:
        """Ask about a tool call; return the id of the choice, None if the question was closed."""
        options: list[Json] = [
            {"optionId": choice.id, "name": choice.name, "kind": choice.kind} for choice in choices
        ]
        answer = await self._ask(
            "session/request_permission", {"toolCall": dict(call), "options": options}
        )
        match answer:
            case {"outcome": {"outcome": "selected", "optionId": str(id)}}:
                return id
            case _:
                return None

    async def fill_form(self, message: str, schema: Mapping[str, Json]) -> Filled:
        """Let the user fill in a form."""
        params: dict[str, Json] = {"mode": "form", "message": message}
        answer = await self._ask("elicitation/create", {**params, "requestedSchema": dict(schema)})
        return _form_answer(answer)

    async def visit_page(self, message: str, url: str, id: str) -> Filled:
        """Ask the user to visit a URL."""
        params: dict[str, Json] = {"mode": "url", "message": message, "url": url}
        return _form_answer(await self._ask("elicitation/create", {**params, "elicitationId": id}))

    async def read_file(self, path: str) -> str | None:
        """Return a file's text as the editor has it; None if the response is invalid."""
        match await self._ask("fs/read_text_file", {"path": path}):
            case {"content": str(content)}:
                return content
            case _:
                return None

    async def write_file(self, path: str, content: str) -> None:
        """Have the editor write a file."""
        await self._ask("fs/write_text_file", {"path": path, "content": content})

    async def _ask(self, method: str, params: dict[str, Json]) -> Json:
        return await self._connection.request(method, {"sessionId": self._session_id, **params})


def _form_answer(answer: Json) -> Filled:
    match answer:
        case {"action": "accept", "content": dict(values)}:
            return Filled("accept", values)
        case {"action": ("accept" | "decline") as action}:
            return Filled(action)
        case _:
            return Filled("cancel")


_LIMIT_S: Final = 10.0
T = TypeVar("T")


class EditorDocuments:
    """Asks the client from a tool's thread; goes on without an editor that does not answer.

    Attributes:
        written: By path, the text that a write replaced in the editor, and the new one.
    """

    def __init__(self, client: EditorClient, loop: asyncio.AbstractEventLoop) -> None:
        """Ask *client*, whose connection lives in *loop*."""
        self.written: dict[Path, tuple[str, str]] = {}
        self._client = client
        self._loop = loop
        self._shown: dict[int, tuple[Path, str]] = {}  # by thread: tools work side by side

    def read(self, path: Path) -> str | None:
        """Return the text of *path* as the editor has it; None if it cannot tell."""
        if not self._client.reads_files:
            return None
        try:
            shown = self._wait(self._client.read_file(str(path)))
        except (RpcFault, ConnectionLost, TimeoutError, CancelledError):
            return None
        if shown is not None:
            self._shown[get_ident()] = path, shown
        return shown

    def write(self, path: Path, text: str) -> bool:
        """Make *text* the content of *path*; False if the editor cannot, and changed nothing.

        Raises:
            ToolError: The editor did not answer.
        """
        if not self._client.writes_files:
            return False
        try:
            self._wait(self._client.write_file(str(path), text))
        except RpcFault:
            return False
        except (ConnectionLost, TimeoutError, CancelledError) as error:
            raise ToolError(
                f"The editor did not say whether it wrote {path.name}. Read it before going on."
            ) from error
        shown_path, shown = self._shown.get(get_ident(), (None, ""))
        if shown_path == path:
            self.written[path] = shown, text
        return True

    # Any: the yield and send types of a coroutine are internal to asyncio.
    def _wait(self, asking: Coroutine[Any, Any, T]) -> T:
        asked = asyncio.run_coroutine_threadsafe(_limited(asking), self._loop)
        return asked.result(_LIMIT_S + 1.0)


async def _limited(asking: Coroutine[Any, Any, T]) -> T:
    async with asyncio.timeout(_LIMIT_S):
        return await asking


_ONCE: Final = PermissionOption("once", "Yes", "allow_once")
_NO: Final = PermissionOption("no", "No", "reject_once")
_SESSION: Final = "session"
_PROJECT: Final = "project"

_log = logger(__name__)


class QuestionClosed(Exception):
    """The user closed a question instead of answering: the prompt stops."""


class PermissionRequests:
    """Asks about waiting calls; a "don't ask again" rule is stored before the next question."""

    def __init__(
        self,
        app: Application,
        client: EditorClient,
        described: Callable[[ToolCall, str | None], dict[str, Json]],
        say: Callable[[str], None],
    ) -> None:
        """Ask nothing yet.

        Args:
            app: The application whose calls wait.
            client: The client to ask.
            described: Returns the fields that show a call, and what it changes in a text of the
                editor.
            say: Shows a sentence.
        """
        self._app = app
        self._client = client
        self._described = described
        self._say = say

    async def decide(
        self,
        calls: Sequence[ToolCall],
        record: Callable[[ToolCall, Decision], None] = lambda _call, _decision: None,
        *,
        check: Callable[[], None] = lambda: None,
    ) -> list[Decision]:
        """Return the user's decision about each of *calls*; each goes to *record* at once.

        *check* raises if the turn was cancelled: an answer right behind the cancel is none.

        Raises:
            QuestionClosed: The user closed a question.
            ConnectionLost: The client is gone; the other calls are not decided.
        """
        permissions = self._app.permissions
        decisions: list[Decision] = []
        for call in calls:
            await permissions.recall(call, self._app.tools)
            is_allowed = permissions.is_remembered(call)
            decisions.append(Approved() if is_allowed else await self._ask(call, check))
            record(call, decisions[-1])
        return decisions

    async def _ask(self, call: ToolCall, check: Callable[[], None]) -> Decision:
        try:
            shown = self._shown(call, await self._unsaved(call))
            answer = await self._client.choose(shown, self._choices(call))
        except RpcFault as fault:
            _log.warning("permission not asked", reason=fault.message)
            self._say(f"{call.name} skipped: this client cannot ask ({fault.message})")
            return Rejected(NOBODY_ALLOWS)
        if answer is None:
            raise QuestionClosed
        check()
        return self._decision(call, answer)

    def _decision(self, call: ToolCall, answer: str) -> Decision:
        """Return the decision for *answer*; store the rule it asks for."""
        offered = {choice.id for choice in self._choices(call)}
        if answer not in offered or answer == _NO.id:
            return Rejected(UNWANTED)
        try:
            if answer == _SESSION:
                self._app.permissions.remember(call)
            elif answer == _PROJECT:
                self._app.permissions.remember_for_project(call)
        except SettingsError as error:
            self._say(f"The rule was not kept: {error}")
        return Approved()

    def _choices(self, call: ToolCall) -> list[PermissionOption]:
        choices = [_ONCE]
        if rules := self._app.permissions.asked_about(call).rules:
            listed = reveal(", ".join(rules))
            name = f"Yes, and don't ask again this session for {listed}"
            choices.append(PermissionOption(_SESSION, name, "allow_always"))
            if file := self._app.permissions.project_file:
                name = f"Yes, and don't ask again in this project for {listed} (kept in {file})"
                choices.append(PermissionOption(_PROJECT, name, "allow_always"))
        return [*choices, _NO]

    async def _unsaved(self, call: ToolCall) -> str | None:
        """Return the text of the file that *call* writes, as the editor has it, if it says."""
        target = written_by(call.name, call.input, self._app.tools)
        if target is None or not self._client.reads_files:
            return None
        try:
            return await _limited(self._client.read_file(str(target)))
        except (RpcFault, TimeoutError):
            return None

    def _shown(self, call: ToolCall, unsaved: str | None) -> dict[str, Json]:
        """Return the fields that show *call*, with the reason for asking before its effect."""
        described = self._described(call, unsaved)
        planned = described["content"]
        assert isinstance(planned, list)
        why = [f"Why it asks: {call.reason}"] if call.reason else []
        facts = [*why, *self._app.permissions.asked_about(call).facts]
        lines: list[Json] = [{"type": "content", "content": text(reveal(fact))} for fact in facts]
        return {**described, "status": "pending", "content": [*lines, *planned]}


class AgentCalls:
    """Decides about calls of subagents; see `dialogs.CallDialogs`."""

    can_ask = True

    def __init__(self, requests: PermissionRequests, turn: asyncio.Lock) -> None:
        """Ask nothing yet; *turn* is held during a question."""
        self._requests = requests
        self._turn = turn

    async def decide_calls(self, calls: Sequence[ToolCall], asker: str) -> Sequence[Decision]:
        """Return the user's decision about each of *calls*; a question names *asker*."""
        named = [replace(call, reason=f"{asker}: {call.reason}") for call in calls]
        async with self._turn:
            try:
                return await self._requests.decide(named)
            except (QuestionClosed, ConnectionLost):
                return [Rejected(STOPPED, stop=True)] * len(calls)
