"""Whatever input schemas a server sends, the run continues, and the tool at fault is named."""

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agent_cli.contracts.messages import ToolResultMessage
from agent_cli.contracts.servers import ServerPhase
from agent_cli.contracts.timeline import Json
from agent_cli.mcp_client import McpServers
from tests.fakes import calls, says, scripted_agent, tool_use
from tests.mcp_client.conftest import no_freeze
from tests.mcp_client.hostile_schemas import HOSTILE

if TYPE_CHECKING:
    from tests.mcp_client.conftest import RawServer

LIMIT_S = 60
# Forty letters that a catastrophic pattern almost matches.
GIVEN: Json = {"a": "a" * 40 + "!"}


@pytest.fixture
async def servers(raw_server: "RawServer", tmp_path: Path) -> AsyncIterator[McpServers]:
    """Run one server that lists every hostile tool, and a good one after them."""
    tools = [{"name": name, "inputSchema": schema} for name, (_, schema) in HOSTILE.items()]
    tools.append({"name": "good", "inputSchema": {"type": "object"}})
    listed = tmp_path / "tools.json"
    listed.write_text(json.dumps(tools))
    async with McpServers(os.environ) as running, no_freeze():
        running.start([raw_server({"tools_file": str(listed)})])
        assert await running.wait_started(LIMIT_S)
        yield running


def named(fate: str) -> set[str]:
    return {name for name, (its, _) in HOSTILE.items() if its == fate}


def test_there_are_fifty_hostile_schemas() -> None:
    assert len(HOSTILE) >= 50


async def test_tools_with_unsendable_schemas_are_left_out_and_named(servers: McpServers) -> None:
    """If sent, one such schema would fail every prompt without naming its server."""
    [state] = servers.states()
    offered = {tool.name.removeprefix("mcp__raw__") for tool in servers.tools()}
    noted = {note.split(maxsplit=2)[1] for note in state.notes if " is left out: " in note}

    assert state.phase is ServerPhase.READY
    assert noted == named("left out")
    assert offered == {*named("called"), *named("not callable"), "good"}
    for tool in servers.tools():
        json.dumps(tool.spec.input_schema, allow_nan=False, ensure_ascii=False).encode()


async def test_hostile_schema_fails_its_own_call_and_no_parallel_call(servers: McpServers) -> None:
    """A bad reference or a catastrophic pattern costs its own call, and the model reads why."""
    names = [tool.name for tool in servers.tools()]
    uses = [tool_use(name, GIVEN, f"t{at}") for at, name in enumerate(names)]
    agent, _, events = scripted_agent(calls(*uses), says("done"), tools=servers.tools())

    async with no_freeze():
        result = await agent.prompt("Call them all.")

    results = {
        names[int(message.tool_call_id.removeprefix("t"))]: message
        for message in agent.conversation.messages()
        if isinstance(message, ToolResultMessage)
    }
    assert result.stop_reason == "end_turn", events[-1]
    assert len(results) == len(names)
    for name, message in results.items():
        refused = name.removeprefix("mcp__raw__") in named("not callable")
        text = str(message.content)
        assert message.is_error == refused, (name, text)
        assert (f"{name} cannot be called: its schema" if refused else "answered") in text
