"""MCP servers together with the built-in tools, through the whole program."""

import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.e2e.program import (
    agent_cli,
    in_terminal,
    processes_with,
    results_in,
    text_of,
)
from tests.forked import arguments_of
from tests.mcp_client.conftest import RAW_SERVER, SDK_SERVER
from tests.messages_api import reply, serve_in_thread, tool_use
from tests.waiting import GROWING_LIMITS_S, wait_until

BAD = {"command": "sh", "args": ["-c", "echo the disk is full >&2; exit 3"]}


def configured(**servers: Mapping[str, object]) -> tuple[str, str]:
    Path("servers.json").write_text(json.dumps({"mcpServers": servers}))
    return "--mcp-config", "servers.json"


def test_mcp_tools_are_offered_with_the_built_in_tools_and_can_be_called() -> None:
    """S1-42, S1c-7: in the request under valid names, called and answered like any other."""
    good = {"command": sys.executable, "args": arguments_of(SDK_SERVER, "stdio")}
    with serve_in_thread(
        reply(
            tool_use("mcp__fixture__add", {"a": 2, "b": 40}),
            tool_use("glob", {"pattern": "*.json"}),
            tool_use("mcp__fixture__explode", {}),
        ),
        reply("42."),
    ) as api:
        run = agent_cli(
            *("-p", "add", *configured(fixture=good), "--allow", "mcp__fixture__*"),
            api=api,
            AGENT_CLI_MCP__HEADLESS_WAIT_S="60",  # however busy the machine is
        )

    names = [tool["name"] for tool in api.requests[0].body["tools"]]
    results = results_in(api.requests[1].body)
    assert (run.code, run.stdout) == (0, "42.\n")
    # On a busy machine it takes longer than three seconds.
    assert all(line.startswith("waiting for MCP servers") for line in run.stderr.splitlines())
    assert names[:6] == ["read", "edit", "write", "bash", "grep", "glob"]
    assert {"mcp__fixture__add", "mcp__fixture__explode"} <= set(names)
    assert len(set(names)) == len(names)
    assert "42" in text_of(results[0])
    assert "servers.json" in text_of(results[1])
    assert results[2]["is_error"] is True
    assert "explode" in text_of(results[2])


def test_a_server_cannot_let_its_own_tool_run_unasked() -> None:
    """Threat 6: it claims to be read-only; without a person to ask, it is not called."""
    reading = {
        "name": "reply",
        "inputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True, "openWorldHint": True},
    }
    options = json.dumps({"tools": [reading], "record": "record"})
    with serve_in_thread(reply(tool_use("mcp__raw__reply", {})), reply("No.")) as api:
        raw = {"command": sys.executable, "args": ["-I", "-S", RAW_SERVER, options]}
        run = agent_cli("-p", "fetch", *configured(raw=raw), api=api)

    [refused] = results_in(api.requests[1].body)
    assert "mcp__raw__reply" in run.stderr
    assert refused["is_error"] is True
    assert "tools/call" not in Path("record").read_text()


def test_option_that_names_a_server_allows_its_tools_and_a_wrong_name_is_said() -> None:
    """`--allow mcp__raw` is what people type; one that matches nothing must not be silent."""
    raw = {"command": sys.executable, "args": ["-I", "-S", RAW_SERVER, "{}"]}
    with serve_in_thread(reply(tool_use("mcp__raw__reply", {})), reply("Hi.")) as api:
        options = ("--allow", "mcp__raw", "--allow", "mcp__row")
        run = agent_cli("-p", "hi", *configured(raw=raw), *options, api=api)

    [result] = results_in(api.requests[1].body)
    assert (run.code, text_of(result)) == (0, "answered")
    assert "allow mcp__row__* matches nothing: there is no MCP server row; there are: raw" in (
        run.stderr
    )


@pytest.mark.parametrize(
    ("rules", "finds"), [(["mcp__one"], True), (["mcp__one", "mcp__two"], False)]
)
def test_search_for_tools_neither_names_nor_finds_those_that_a_rule_denies(
    rules: list[str], finds: bool
) -> None:
    """It was offered also where it could find nothing else."""
    raw = {"command": sys.executable, "args": ["-I", "-S", RAW_SERVER, "{}"]}
    with serve_in_thread(reply(tool_use("mcp__one__reply", {})), reply("Hi.")) as api:
        agent_cli(
            *("-p", "hi", *configured(one=raw, two=raw)),
            *(word for rule in rules for word in ("--deny", rule)),
            api=api,
            AGENT_CLI_MCP__DEFER_BEYOND_TOKENS="1",
            AGENT_CLI_MCP__HEADLESS_WAIT_S="60",
        )

    [search] = [each for each in api.requests[0].body["tools"] if each["name"] == "find_tools"] or [
        {}
    ]
    [result] = results_in(api.requests[1].body)
    assert ("two:" in str(search)) == finds
    assert "one:" not in str(search)
    assert "denies this call" in text_of(result)


def test_run_without_a_hanging_or_required_server_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """`-p` waits once for all servers and names the late ones; a required one ends it unpaid."""
    hanging = {"command": sys.executable, "args": ["-I", "-S", RAW_SERVER, '{"hang": true}']}
    raw = {"command": sys.executable, "args": ["-I", "-S", RAW_SERVER, "{}"]}
    needed = {**hanging, "required": True, "startup_timeout_s": 1}
    servers = configured(one=raw, hung=hanging, two=raw)
    with serve_in_thread(answer=lambda _request: reply("Hi.")) as api:
        limits_s = iter(GROWING_LIMITS_S)
        while True:  # until the other two start within the limit
            limit_s = next(limits_s)
            monkeypatch.setattr("agent_cli.app.mcp.servers._SILENT_WAIT_S", 0.75 * limit_s)
            limit = {"AGENT_CLI_MCP__HEADLESS_WAIT_S": str(limit_s)}
            run = agent_cli("-p", "hi", *servers, api=api, **limit)
            if "one" not in run.stderr and "two" not in run.stderr:
                break
        requests = len(api.requests)
        refused = agent_cli("-p", "hi", *configured(one=raw, needed=needed), api=api)

    offered = {tool["name"] for tool in api.requests[-1].body["tools"]}
    assert (run.code, run.stdout) == (0, "Hi.\n")
    assert run.stderr.splitlines() == [
        f"waiting for MCP servers still starting: hung ({limit_s} s at most, mcp.headless_wait_s)",
        f"MCP servers still starting after {limit_s} s, used from the next request on: hung",
    ]
    assert {"mcp__one__reply", "mcp__two__reply"} <= offered
    assert (refused.code, refused.stdout, len(api.requests)) == (1, "", requests)
    assert "MCP server 'needed' is required, and not there: " in refused.stderr


def test_a_projects_env_never_reaches_the_users_own_servers() -> None:
    """Threat 8: it reaches neither their environment nor their entries, only project servers."""
    tell = 'printf %s "$T:$NPM_CONFIG_NODE_OPTIONS" > {}.txt'

    def server(name: str) -> Mapping[str, object]:
        return {"command": "sh", "args": ["-c", tell.format(name)], "env": {"T": "${TOKEN:-none}"}}

    users = Path(os.environ["XDG_CONFIG_HOME"], "agent-cli", "mcp.json")
    users.parent.mkdir(parents=True, exist_ok=True)
    users.write_text(json.dumps({"mcpServers": {"mine": server("mine")}}))
    Path(".mcp.json").write_text(json.dumps({"mcpServers": {"its": server("its")}}))
    Path(".env").write_text("TOKEN=project\nNPM_CONFIG_NODE_OPTIONS=project\n")
    with serve_in_thread(reply("Hi.")) as api:
        agent_cli("-p", "hi", "--trust", api=api)

    assert Path("mine.txt").read_text() == "none:"
    assert Path("its.txt").read_text() == "project:"


def test_failing_mcp_server_is_one_warning_and_the_run_continues() -> None:
    """S1-42: with the tail of its stderr; the others' tools are available."""
    with serve_in_thread(reply("Hi."), reply("Hi.")) as api:
        raw = {"command": sys.executable, "args": ["-I", "-S", RAW_SERVER, "{}"]}
        servers = configured(bad=BAD, raw=raw)
        print_run = agent_cli("-p", "hi", *servers, api=api)
        repl_run = agent_cli(*servers, api=api, script="/mcp\nhi\n")

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
    """Its `.mcp.json` runs programs; one line names the servers left out, and the remedy."""
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


def test_mcp_servers_work_while_others_hang_or_crash() -> None:
    """S1-42: four can be used, the screen names the faults of six, and all end with us.

    One dies in mid-call and one is cancelled: each costs its call, and the run or the session
    continues. None survives our kill -9.
    """
    marker = f"many-{os.getpid():07}"
    quiet = {"progress": "half way", "reply": None}
    with (
        serve_in_thread(
            reply(tool_use("mcp__good0__reply", {"reply": "die"}), tool_use("mcp__good1__reply")),
            reply(tool_use("mcp__good2__reply", quiet)),
        ) as api,
        in_terminal(api, *configured(**many(marker)), "--permission-mode", "yolo") as terminal,
    ):
        terminal.until_prompt()
        for number in range(3):
            terminal.until(f"'crash{number}' did not start: it ended (exit code 1) before")
        terminal.until("MCP 4/10")
        assert "no key" in terminal.text
        terminal.send("go\r")
        terminal.until("half way (1 of 2)")
        terminal.send("\x1b")
        terminal.until("interrupted")
        wait_until(lambda: "notifications/cancelled" in Path("record").read_text(), "it was told")
        terminal.child.kill(signal.SIGKILL)

        wait_until(lambda: not processes_with(marker), "no server is left", promised_s=2)
    names = {tool["name"] for tool in api.requests[0].body["tools"]}
    died, answered = results_in(api.requests[1].body)
    assert {name for name in names if name.startswith("mcp__")} == {
        f"mcp__good{number}__{tool}" for number in range(4) for tool in ("reply", "raw")
    }
    assert died["is_error"] is True
    assert "'good0' ended during the call" in text_of(died)
    assert text_of(answered) == "answered"
    assert "used from a later prompt on: hang0, hang1" in terminal.text


def many(marker: str) -> dict[str, Mapping[str, object]]:
    """Return four servers that work, three that hang and three that crash."""
    kinds: dict[str, tuple[int, dict[str, object]]] = {
        "hang": (3, {"hang": True}),
        "crash": (3, {"exit": 1, "stderr": "no key"}),
        "good": (4, {"record": "record"}),
    }
    return {
        f"{kind}{number}": {
            "command": sys.executable,
            "args": ["-I", "-S", RAW_SERVER, json.dumps({**options, "marker": marker})],
        }
        for kind, (count, options) in kinds.items()
        for number in range(count)
    }


def test_no_mcp_option_starts_no_server() -> None:
    """`--no-mcp` wins over every configuration."""
    spy = {"command": "sh", "args": ["-c", "touch started"]}
    with serve_in_thread(reply("Hi.")) as api:
        run = agent_cli("-p", "hi", *configured(spy=spy), "--no-mcp", api=api)

    assert (run.code, run.stderr) == (0, "")
    assert not Path("started").exists()
