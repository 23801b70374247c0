"""The assembled program: the services it hands to tools that callers provide."""

import pytest

from agent_cli.app.app import App
from agent_cli.app.arguments import parse_arguments
from agent_cli.app.startup import start
from agent_cli.contracts.tooling import ToolContext
from agent_cli.sandbox import Sandbox
from tests.fakes import does, tool
from tests.messages_api import reply, serve_in_thread, tool_use


async def test_tool_context_has_the_services_of_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """S2-23, C24: the workspace and the sandbox, without importing the program."""
    found: dict[str, object] = {}

    async def look(on_update: ToolContext) -> str:
        found.update(on_update.services)
        return "looked"

    with serve_in_thread(reply(tool_use("look", {})), reply("Done.")) as api:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.base_url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        words = ("--no-mcp", "--no-plugins", "--permission-mode", "yolo", "--no-session")
        app = App(start(parse_arguments(words), may_ask=False), one_shot=True)
        async with app:
            app.agent.set_tools([tool("look", does(look))])
            result = await app.agent.prompt("go")
            assert (result.stop_reason, result.error) == ("end_turn", None)

    assert found["workspace"] == app.workspace
    assert isinstance(found["sandbox"], Sandbox)
