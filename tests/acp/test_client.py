"""Requests to the client: the editor's documents, and decisions about calls of subagents."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest

from agent_cli.acp import ConnectionLost, RpcFault, client
from agent_cli.acp.client import (
    AgentCalls,
    EditorClient,
    EditorDocuments,
    PermissionRequests,
    QuestionClosed,
)
from agent_cli.acp.schema import ClientCapabilities, checked
from agent_cli.contracts.dialogs import Approved, Decision, Rejected
from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.events import ToolCall
from agent_cli.core.call_decisions import STOPPED
from tests.tables import each_row

BOTH = {"fs": {"readTextFile": True, "writeTextFile": True}}


class Answering:
    """A connection whose client gives this answer to everything; an exception is raised."""

    def __init__(self, answer: object) -> None:
        self.asked: list[tuple[str, object]] = []
        self._answer = answer

    async def request(self, method: str, params: object) -> object:
        self.asked.append((method, params))
        if isinstance(self._answer, Exception):
            raise self._answer
        if self._answer is None:
            await asyncio.Event().wait()
        return self._answer


def editor_with(answer: object, capabilities: dict[str, Any]) -> tuple[EditorDocuments, Answering]:
    connection: Any = Answering(answer)
    client = EditorClient(connection, "s", checked(ClientCapabilities, capabilities))
    return EditorDocuments(client, asyncio.get_running_loop()), connection


async def test_editor_buffer_is_read_and_written() -> None:
    editor, connection = editor_with({"content": "text"}, BOTH)

    assert await asyncio.to_thread(editor.read, Path("/a")) == "text"
    assert await asyncio.to_thread(editor.write, Path("/a"), "new")
    assert connection.asked == [
        ("fs/read_text_file", {"sessionId": "s", "path": "/a"}),
        ("fs/write_text_file", {"sessionId": "s", "path": "/a", "content": "new"}),
    ]


async def test_changes_made_side_by_side_are_each_against_the_text_they_replaced() -> None:
    editor, _ = editor_with({"content": "text"}, BOTH)
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        for thread, name in ((one, "/a"), (other, "/b")):
            await loop.run_in_executor(thread, editor.read, Path(name))

        for thread, name in ((one, "/a"), (other, "/b")):
            await loop.run_in_executor(thread, editor.write, Path(name), f"new {name}")

    assert editor.written == {Path(name): ("text", f"new {name}") for name in ("/a", "/b")}


@each_row("answer", [RpcFault(-32002, "no"), ConnectionLost(), {}, {"content": 5}])
async def test_failed_or_invalid_buffer_read_returns_none(answer: object) -> None:
    editor, _ = editor_with(answer, BOTH)

    assert await asyncio.to_thread(editor.read, Path("/a")) is None


async def test_write_refused_by_the_editor_returns_false() -> None:
    editor, _ = editor_with(RpcFault(-32603, "read-only"), BOTH)

    assert not await asyncio.to_thread(editor.write, Path("/a"), "new")


async def test_unanswered_write_reports_an_unknown_outcome(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "_LIMIT_S", 0.05)
    editor, _ = editor_with(None, BOTH)

    assert await asyncio.to_thread(editor.read, Path("/a")) is None
    with pytest.raises(ToolError, match="did not say"):
        await asyncio.to_thread(editor.write, Path("/a"), "new")


async def test_editor_without_file_capabilities_gets_no_file_requests() -> None:
    editor, connection = editor_with({"content": "text"}, {})

    assert await asyncio.to_thread(editor.read, Path("/a")) is None
    assert not await asyncio.to_thread(editor.write, Path("/a"), "new")
    assert connection.asked == []


CALLS = (ToolCall("c1", "bash", {}, "it runs a command"), ToolCall("c2", "write", {}))


class Requests:
    """Answers as scripted, and records the reasons shown to the user."""

    def __init__(self, answer: list[Decision] | Exception) -> None:
        self._answer = answer
        self.reasons: list[str] = []

    async def decide(self, calls: Sequence[ToolCall]) -> list[Decision]:
        self.reasons = [call.reason for call in calls]
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


@pytest.mark.parametrize(
    ("answer", "decisions"),
    [
        ([Approved(), Rejected("not that")], [Approved(), Rejected("not that")]),
        (QuestionClosed(), [Rejected(STOPPED, stop=True)] * 2),
    ],
)
async def test_permission_request_of_a_subagent_names_the_agent(
    answer: list[Decision] | Exception, decisions: list[Decision]
) -> None:
    requests = Requests(answer)
    calls = AgentCalls(cast("PermissionRequests", requests), asyncio.Lock())

    assert await calls.decide_calls(CALLS, "agent explore (look)") == decisions
    assert requests.reasons[0] == "agent explore (look): it runs a command"
