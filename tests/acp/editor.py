"""An editor for tests: the official client library, served in this process or by `agent-cli acp`.

Every message of both directions is validated. The library forgives much (it drops unknown members
and replaces invalid ones), so a message counts as valid only if the library's parsed form,
serialized again, equals the message.
"""

import asyncio
import os
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

import acp
from acp import schema
from acp.client.connection import ClientSideConnection
from acp.connection import StreamDirection, StreamEvent
from pydantic import BaseModel, TypeAdapter, ValidationError
from pytest import MonkeyPatch

from agent_cli.acp.process import StandardStreams
from agent_cli.acp.server import AcpServer
from agent_cli.app.arguments import parse_arguments
from agent_cli.app.served import EditorProgram
from tests.called import set_environment
from tests.e2e.program import AGENT_CLI, environment
from tests.forked import PipedProgram, start
from tests.messages_api import FakeMessagesApi

LIMIT_S: Final = 60.0
Payload: TypeAlias = dict[str, Any]
Permission: TypeAlias = str | Callable[[Payload], Awaitable[str]]

_RESPONSES: Final[dict[str, type[BaseModel]]] = {
    "initialize": schema.InitializeResponse,
    "authenticate": schema.AuthenticateResponse,
    "session/new": schema.NewSessionResponse,
    "session/load": schema.LoadSessionResponse,
    "session/resume": schema.ResumeSessionResponse,
    "session/fork": schema.ForkSessionResponse,
    "session/list": schema.ListSessionsResponse,
    "session/close": schema.CloseSessionResponse,
    "session/delete": schema.DeleteSessionResponse,
    "session/prompt": schema.PromptResponse,
    "session/set_mode": schema.SetSessionModeResponse,
    "session/set_config_option": schema.SetSessionConfigOptionResponse,
}
_REQUESTS: Final[dict[str, Any]] = {
    "session/update": schema.SessionNotification,
    "session/request_permission": schema.RequestPermissionRequest,
    "fs/read_text_file": schema.ReadTextFileRequest,
    "fs/write_text_file": schema.WriteTextFileRequest,
    "elicitation/create": schema.CreateFormSessionElicitationRequest
    | schema.CreateUrlSessionElicitationRequest,
}


class Editor:
    """The agent's updates and requests, and the user's answers.

    Attributes:
        updates: Every update so far, as on the wire.
        asked: Every permission request.
        permissions: Ids of options, in the order the user picks them; "" closes the question.
        forms: Answers to elicitations.
        buffers: The open files' text by path; None makes reading one fail.
        faults: Messages that violate the schema.
    """

    agent: ClientSideConnection
    leave: Callable[[], None]

    def __init__(self) -> None:
        self.updates: list[Payload] = []
        self.asked: list[Payload] = []
        self.questions: list[Payload] = []
        self.permissions: deque[Permission] = deque()
        self.forms: deque[Payload] = deque()
        self.buffers: dict[str, str | None] = {}
        self.written: dict[str, str] = {}
        self.faults: list[str] = []
        self.lines: list[Payload] = []
        self._methods: dict[Any, str] = {}
        self._came = asyncio.Event()

    def observe(self, event: StreamEvent) -> None:
        """Validate a message on the wire."""
        message = event.message
        if event.direction is StreamDirection.OUTGOING:
            if "method" in message and "id" in message:
                self._methods[message["id"]] = message["method"]
            return
        self.lines.append(message)
        method = message.get("method")
        if method == "session/update":
            self.updates.append(message["params"]["update"])
        if method == "session/request_permission":
            self.asked.append(message["params"])
        if method == "elicitation/create":
            self.questions.append(message["params"])
        if fault := self._fault(message):
            self.faults.append(fault)
        self._came.set()

    def _fault(self, message: Payload) -> str:
        if message.get("jsonrpc") != "2.0":
            return f"no JSON-RPC 2.0: {message}"
        if "method" in message:
            return fault_of(_REQUESTS.get(message["method"]), message.get("params"))
        if "error" in message:
            return fault_of(schema.Error, message["error"])
        method = self._methods.get(message["id"], "?")
        return fault_of(_RESPONSES.get(method), message["result"])

    async def request_permission(
        self, session_id: str, tool_call: Any, options: Any, **_rest: Any
    ) -> schema.RequestPermissionResponse:
        """Answer as scripted."""
        answer = self.permissions.popleft()
        if not isinstance(answer, str):
            answer = await answer(self.asked[-1])
        if not answer:
            return schema.RequestPermissionResponse(
                outcome=schema.DeniedOutcome(outcome="cancelled")
            )
        chosen = schema.AllowedOutcome(outcome="selected", option_id=answer)
        return schema.RequestPermissionResponse(outcome=chosen)

    async def session_update(self, session_id: str, update: Any, **_rest: Any) -> None:
        """Do nothing: the wire is observed."""

    async def create_elicitation(self, message: str, mode: Any, **_rest: Any) -> Payload:
        """Answer as scripted."""
        return self.forms.popleft()

    async def read_text_file(
        self, session_id: str, path: str, **_rest: Any
    ) -> schema.ReadTextFileResponse:
        """Return the open buffer, or the file."""
        content = self.buffers.get(path, "" if path in self.buffers else _file(path))
        if content is None:
            raise acp.RequestError.resource_not_found(path)
        return schema.ReadTextFileResponse(content=content)

    async def write_text_file(
        self, session_id: str, path: str, content: str, **_rest: Any
    ) -> schema.WriteTextFileResponse:
        """Save, as an editor does."""
        self.written[path] = content
        self.buffers.pop(path, None)
        Path(path).write_text(content)
        return schema.WriteTextFileResponse()

    def never_answers(self) -> asyncio.Event:
        """Leave the next permission request open; return an event that is set once it is asked."""
        asked = asyncio.Event()

        async def wait(_question: Payload) -> str:
            asked.set()
            await asyncio.Event().wait()
            raise AssertionError("nobody ends the wait")

        self.permissions.append(wait)
        return asked

    def of(self, kind: str) -> list[Payload]:
        """Return the updates of one kind."""
        return [update for update in self.updates if update["sessionUpdate"] == kind]

    def text(self, kind: str = "agent_message") -> str:
        """Return the text of all chunks of one kind."""
        return "".join(each["content"].get("text", "") for each in self.of(f"{kind}_chunk"))

    def call(self, id: str) -> Payload:
        """Return a tool call with all its updates merged."""
        merged: Payload = {}
        for update in self.updates:
            if update.get("toolCallId") == id:
                merged |= update
        return merged

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until *condition* holds; it is checked after every message."""
        async with asyncio.timeout(LIMIT_S):
            while not condition():
                self._came.clear()
                await self._came.wait()

    async def open(self, **options: Any) -> str:
        """Shake hands and open a session in the current folder; return its id."""
        await self.agent.initialize(protocol_version=1, **options)
        return (await self.agent.new_session(cwd=str(Path.cwd()))).session_id

    async def delete(self, session_id: str) -> object:
        """Delete a session; the library's client has no method for it."""
        async with asyncio.timeout(LIMIT_S):
            connection = self.agent._conn  # pyright: ignore[reportPrivateUsage]
            return await connection.send_request("session/delete", {"sessionId": session_id})

    async def say(self, session_id: str, *blocks: Any) -> schema.PromptResponse:
        """Send a prompt and wait for its end."""
        content = [acp.text_block(each) if isinstance(each, str) else each for each in blocks]
        async with asyncio.timeout(LIMIT_S):
            return await self.agent.prompt(session_id=session_id, prompt=content)


def fault_of(model: Any, value: Any) -> str:
    """Return how *value* violates *model*, or ""."""
    if model is None:
        return f"unexpected: {value}"
    try:
        parsed = TypeAdapter(model).validate_python(value)
    except ValidationError as error:
        return f"{error}"
    again = parsed.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return "" if again == value else f"{value}\nis read as\n{again}"


@asynccontextmanager
async def editor(
    api: FakeMessagesApi | None, *arguments: str, **more: str | None
) -> AsyncGenerator[Editor]:
    """Serve an editor in this process, in half the time; its messages must all be valid.

    Args:
        api: The server.
        arguments: Options before `acp`.
        more: Additional environment variables; None unsets one.
    """
    (for_agent, to_agent), (for_editor, to_editor) = os.pipe(), os.pipe()
    with MonkeyPatch.context() as patch:
        set_environment(patch, environment(api, more))
        program = EditorProgram(parse_arguments([*arguments, "acp"]))

        async def serve() -> None:
            await AcpServer(program, StandardStreams(for_agent, to_editor)).serve()
            os.close(for_agent)
            os.close(to_editor)

        with program.logging():
            async with asyncio.TaskGroup() as group:
                group.create_task(serve())
                async with _connected(to_agent, for_editor) as client:
                    yield client


@asynccontextmanager
async def editor_of_program(
    api: FakeMessagesApi | None, *arguments: str, **more: str | None
) -> AsyncGenerator[tuple[Editor, PipedProgram]]:
    """Start `agent-cli acp` and connect an editor to it, as `editor` does."""
    with start(AGENT_CLI, *arguments, "acp", environment=environment(api, more)) as program:
        pipes = os.dup(program.stdin.fileno()), os.dup(program.stdout.fileno())
        program.stdin.close()
        async with _connected(*pipes) as client:
            yield client, program
        await asyncio.to_thread(program.wait, LIMIT_S)


@asynccontextmanager
async def _connected(to_agent: int, from_agent: int) -> AsyncGenerator[Editor]:
    """Connect an editor to the ends of two pipes, which are closed at the end."""
    client = Editor()
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=2**26)
    reading, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(from_agent)
    )
    writing, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(to_agent, "w")
    )
    writer = asyncio.StreamWriter(writing, protocol, reader, loop)
    library_client: Any = client  # it has the methods that these tests need, not all
    client.agent = ClientSideConnection(
        library_client, writer, reader, use_unstable_protocol=True, observers=[client.observe]
    )
    client.leave = writing.abort
    try:
        yield client
    finally:
        await client.agent.close()
        if not writing.is_closing():
            writing.abort()
        reading.close()
        await asyncio.sleep(0)  # the transports close in the next round of the loop
    assert client.faults == []


def _file(path: str) -> str | None:
    try:
        return Path(path).read_text()
    except OSError:
        return None
