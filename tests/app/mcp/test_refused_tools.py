"""Tools of MCP servers that the model's API refuses."""

import json
import sys
from pathlib import Path

from agent_cli.contracts.events import Notice
from agent_cli.contracts.timeline import Json
from tests.app.agents.test_agents import TASK, Program, Script, program, started, with_servers
from tests.mcp_client.conftest import RAW_SERVER
from tests.messages_api import Answer, ReceivedRequest, error, reply


def server(*tools: str) -> dict[str, Json]:
    listed: list[Json] = [{"name": name, "inputSchema": {"type": "object"}} for name in tools]
    arguments: list[Json] = ["-I", "-S", RAW_SERVER, json.dumps({"tools": listed})]
    return {"command": sys.executable, "args": arguments}


def refuse(request: ReceivedRequest) -> Answer:
    names = [tool["name"] for tool in request.body["tools"]]
    return error(
        400,
        "invalid_request_error",
        f"tools.{names.index('mcp__s__odd')}.custom.input_schema: it is odd",
    )


def warnings(run: Program) -> list[str]:
    return [each.text for each in run.events if isinstance(each, Notice)]


TOLD = "the model's API refuses mcp__s__odd of MCP server 's'; it is left out: "


async def test_tool_that_the_api_refuses_is_shown_as_left_out() -> None:
    """Once, with the API's reason; the next request is not said to cost more."""
    Path("servers.json").write_text(json.dumps({"mcpServers": {"s": server("good", "odd")}}))
    script = Script(go=[refuse, reply("ok"), reply("ok")])
    async with program(script, "--mcp-config", "servers.json", mcp=True) as run:
        await run.prompt()
        await run.prompt()
        [state] = run.app.servers.states()

    assert (state.phase, state.tools) == ("ready", 1)
    [note] = state.notes
    assert note.startswith("tool mcp__s__odd is left out: the model's API refuses it: ")
    assert "it is odd" in note
    [told] = warnings(run)
    assert told.startswith(TOLD)
    offered = [[tool["name"] for tool in body["tools"]] for body in script.bodies("go")]
    assert ["mcp__s__odd" in names for names in offered] == [True, False, False]
    assert all("mcp__s__good" in names for names in offered)


async def test_refused_tool_of_an_agents_own_server_is_named_too() -> None:
    """Such a server belongs to the agent, the connection to the API to the session."""
    with_servers(s=server("good", "odd"))
    script = Script(
        go=[started(TASK, agent="helped"), reply("Thanks.")],
        explore_the_basket=[refuse, reply("Done.")],
    )
    async with program(script, mcp=True) as run:
        result = await run.prompt()

    assert run.answers(result) == ["Done."]
    assert any(text.startswith(TOLD) for text in warnings(run))
