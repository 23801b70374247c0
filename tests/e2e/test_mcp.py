"""MCP servers beside the built-in tools, through the whole program."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.e2e.program import agent_cli, results_in, text_of
from tests.mcp_client.conftest import RAW_SERVER, SDK_SERVER
from tests.messages_api import reply, serve_in_thread, tool_use

GOOD = {"command": sys.executable, "args": [SDK_SERVER, "stdio"]}
BAD = {"command": "sh", "args": ["-c", "echo the disk is full >&2; exit 3"]}


def configured(**servers: Mapping[str, object]) -> tuple[str, str]:
    Path("servers.json").write_text(json.dumps({"mcpServers": servers}))
    return "--mcp-config", "servers.json"


def test_a_servers_tools_stand_beside_the_built_in_ones_and_can_be_called() -> None:
    """S1-42, S1c-7: in the request under valid names, called and answered like any other."""
    with serve_in_thread(
        reply(
            tool_use("mcp__fixture__add", {"a": 2, "b": 40}),
            tool_use("glob", {"pattern": "*.json"}),
            tool_use("mcp__fixture__explode", {}),
        ),
        reply("42."),
    ) as api:
        run = agent_cli(
            *("-p", "add", *configured(fixture=GOOD), "--allow", "mcp__fixture__explode"),
            api=api,
        )

    names = [tool["name"] for tool in api.requests[0].body["tools"]]
    results = results_in(api.requests[1].body)
    assert (run.code, run.stdout, run.stderr) == (0, "42.\n", "")
    assert names[:6] == ["read", "edit", "write", "bash", "grep", "glob"]
    assert {"mcp__fixture__add", "mcp__fixture__explode"} <= set(names)
    assert len(set(names)) == len(names)
    assert "42" in text_of(results[0])
    assert "servers.json" in text_of(results[1])
    assert results[2]["is_error"] is True
    assert "explode" in text_of(results[2])


def test_a_failing_server_is_one_warning_and_not_the_end() -> None:
    """S1-42: with the tail of its stderr; the others' tools are there."""
    with serve_in_thread(reply("Hi."), reply("Hi.")) as api:
        servers = configured(bad=BAD, raw={"command": sys.executable, "args": [RAW_SERVER, "{}"]})
        print_run = agent_cli("-p", "hi", *servers, api=api)
        repl_run = agent_cli(*servers, api=api, stdin="/mcp\nhi\n")

    for run in (print_run, repl_run):
        warnings = [line for line in run.stderr.splitlines() if "'bad' did not start" in line]
        assert len(warnings) == 1
        assert "the disk is full" in warnings[0]
        assert run.code == 0
        assert run.stdout == "Hi.\n"
    names = {tool["name"] for tool in api.requests[0].body["tools"]}
    assert {"mcp__raw__reply", "mcp__raw__raw"} <= names
    assert "bad" in repl_run.stderr


def test_servers_of_an_untrusted_workspace_are_not_started() -> None:
    """Its `.mcp.json` runs programs; one line says what was left out, and how to change that."""
    spy = {"command": "sh", "args": ["-c", "touch started"]}
    Path(".mcp.json").write_text(json.dumps({"mcpServers": {"spy": spy}}))
    with serve_in_thread(reply("Hi."), reply("Hi.")) as api:
        untrusted = agent_cli("-p", "hi", api=api)
        assert not Path("started").exists()
        agent_cli("-p", "hi", "--trust", api=api)

    [line] = untrusted.stderr.splitlines()
    assert ".mcp.json ignored" in line
    assert "agent-cli trust" in line
    assert Path("started").exists()


def test_no_mcp_starts_none() -> None:
    """--no-mcp wins over every configuration."""
    spy = {"command": "sh", "args": ["-c", "touch started"]}
    with serve_in_thread(reply("Hi.")) as api:
        run = agent_cli("-p", "hi", *configured(spy=spy), "--no-mcp", api=api)

    assert (run.code, run.stderr) == (0, "")
    assert not Path("started").exists()
