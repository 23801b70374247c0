"""Requests to the client of one session: decisions, forms, and its editor as `Documents`."""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

from agent_cli.acp.connection import RpcConnection
from agent_cli.acp.framing import ConnectionLost, RpcFault
from agent_cli.acp.schema import ClientCapabilities
from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.timeline import Json

ChoiceKind: TypeAlias = Literal["allow_once", "allow_always", "reject_once"]


class PermissionOption(NamedTuple):
    """An answer the user can pick."""

    id: str
    name: str
    kind: ChoiceKind


class FormAnswer(NamedTuple):
    """The user's answer to a form."""

    action: Literal["accept", "decline", "cancel"]
    values: Mapping[str, Json]


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
                pass
        return None

    async def fill_form(self, message: str, schema: Mapping[str, Json]) -> FormAnswer:
        """Let the user fill in a form."""
        params: dict[str, Json] = {"mode": "form", "message": message}
        answer = await self._ask("elicitation/create", {**params, "requestedSchema": dict(schema)})
        return _form_answer(answer)

    async def visit_page(self, message: str, url: str, id: str) -> FormAnswer:
        """Ask the user to visit a URL."""
        params: dict[str, Json] = {"mode": "url", "message": message, "url": url}
        return _form_answer(await self._ask("elicitation/create", {**params, "elicitationId": id}))

    async def read_file(self, path: str) -> str | None:
        """Return a file's text as the editor has it; None if the response is invalid."""
        match await self._ask("fs/read_text_file", {"path": path}):
            case {"content": str(content)}:
                return content
            case _:
                pass
        return None

    async def write_file(self, path: str, content: str) -> None:
        """Have the editor write a file."""
        await self._ask("fs/write_text_file", {"path": path, "content": content})

    async def _ask(self, method: str, params: dict[str, Json]) -> Json:
        return await self._connection.request(method, {"sessionId": self._session_id, **params})


def _form_answer(answer: Json) -> FormAnswer:
    match answer:
        case {"action": "accept", "content": dict(values)}:
            return FormAnswer("accept", values)
        case {"action": "accept"}:
            return FormAnswer("accept", {})
        case {"action": "decline"}:
            return FormAnswer("decline", {})
        case _:
            pass
    return FormAnswer("cancel", {})


_LIMIT_S: Final = 10.0
T = TypeVar("T")


class EditorDocuments:
    """Asks the client from a tool's thread; goes on without an editor that does not answer."""

    def __init__(self, client: EditorClient, loop: asyncio.AbstractEventLoop) -> None:
        """Ask *client*, whose connection lives in *loop*."""
        self._client = client
        self._loop = loop

    def read(self, path: Path) -> str | None:
        """Return the text of *path* as the editor has it; None if it cannot tell."""
        if not self._client.reads_files:
            return None
        try:
            return self._wait(self._client.read_file(str(path)))
        except (RpcFault, ConnectionLost, TimeoutError, CancelledError):
            return None

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
        return True

    # Any: the yield and send types of a coroutine are internal to asyncio.
    def _wait(self, asking: Coroutine[Any, Any, T]) -> T:
        asked = asyncio.run_coroutine_threadsafe(_limited(asking), self._loop)
        return asked.result(_LIMIT_S + 1.0)


async def _limited(asking: Coroutine[Any, Any, T]) -> T:
    async with asyncio.timeout(_LIMIT_S):
        return await asking
