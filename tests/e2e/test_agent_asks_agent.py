"""Our MCP server with our own client: one agent asks another, and its user decides for both."""

import json
import re
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.program import AGENT_CLI, environment, results_in, started, text_of
from tests.e2e.test_mcp_in_terminal import answer
from tests.forked import arguments_of
from tests.messages_api import FakeMessagesApi, reply, serve_in_thread, tool_use
from tests.messages_api.script import Payload
from tests.repl.terminal import Terminal

TOKEN = "a-token-of-the-test-77d1"
WRITE = tool_use("write", {"path": "note.txt", "content": "done\n"})


@contextmanager
def peer(transport: str, api: FakeMessagesApi) -> Generator[Payload]:
    """Yield the entry of `.mcp.json` for another agent, whose model is *api*."""
    if transport == "stdio":
        named = re.compile(r"XDG_|ANTHROPIC_|AGENT_CLI_")
        env = {name: v for name, v in environment(api, {}).items() if named.match(name)}
        yield {
            "command": sys.executable,
            "args": arguments_of(AGENT_CLI, "mcp", "serve"),
            "env": env,
        }
        return
    with started("mcp", "serve", "--http", api=api, MCP_SERVE_TOKEN=TOKEN) as process:
        url = process.stderr.readline().split()[-1]
        yield {"type": "http", "url": url, "headers": {"Authorization": f"Bearer {TOKEN}"}}


def session_of(request: Any) -> str:
    """Return the session named in the other agent's answer."""
    return str(json.loads(text_of(results_in(request.body)[0]))["session"])


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_user_of_the_asking_agent_approves_a_call_of_the_other_agent(transport: str) -> None:
    """The inner agent's question appears at the outer one's prompt; both know the session."""
    with (
        serve_in_thread(reply(WRITE), reply("Inner wrote."), reply("Inner replied.")) as inner,
        peer(transport, inner) as entry,
        serve_in_thread(
            reply(tool_use("mcp__peer__ask", {"prompt": "write it"})),
            lambda request: reply(
                tool_use("mcp__peer__reply", {"session": session_of(request), "prompt": "more"})
            ),
            reply("Outer done."),
        ) as outer,
    ):
        Path("servers.json").write_text(json.dumps({"mcpServers": {"peer": entry}}))
        options = ("--mcp-config", "servers.json", "--permission-mode", "yolo")
        variables = environment(outer, {"TERM": "xterm-256color"})
        with Terminal(AGENT_CLI, *options, **variables) as terminal:
            terminal.until("MCP 1/1")
            terminal.send("go\r")
            answer(terminal, "peer: answer? (y/n)", "y\r")
            answer(terminal, "peer: Allow this call [no · - = empty]>", "yes\r")
            terminal.until("Outer done.")

    assert Path("note.txt").read_text() == "done\n"
    assert "Inner wrote." in text_of(results_in(outer.requests[1].body)[0])
    assert "Inner replied." in text_of(results_in(outer.requests[2].body)[0])
    assert len(inner.requests[2].body["messages"]) == 5
