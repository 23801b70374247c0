"""Starting, restarting and closing real servers."""

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.servers import ServerPhase, ServerState
from agent_cli.contracts.timeline import Json
from agent_cli.mcp_client import Host, McpServers, ServerConfig, ServerProblem
from agent_cli.mcp_client.config import TransportName
from agent_cli.mcp_client.connection import ServerConnection
from agent_cli.mcp_client.limits import RestartPolicy
from agent_cli.mcp_client.transports import Link
from tests import forked
from tests.mcp_client.hostile_http import Handler, hostile_http
from tests.tables import each_row
from tests.waiting import at_growing_limits, is_alive, parent_of, unstalled_s, wait_until
from tests.web.https_server import serve_web

if TYPE_CHECKING:
    from tests.mcp_client.conftest import Call, HttpServer, RawServer

Until = Callable[[Callable[[], object]], Awaitable[None]]
AT_ONCE = RestartPolicy(delays_s=(0, 0, 0))
HOLDER = str(Path(__file__).with_name("holding_program.py"))
LIMIT_S = 40


def phases(changes: list[ServerState], name: str = "raw") -> list[ServerPhase]:
    return [state.phase for state in changes if state.name == name]


def test_mcp_sdk_is_not_loaded_before_a_server_is_started() -> None:
    """It costs 0.8 s, which a user without MCP servers must not pay."""
    script = (
        "import sys, agent_cli.mcp_client\n"
        "print([name for name in ('mcp', 'mcp_types', 'httpx2', 'anyio') if name in sys.modules])"
    )

    assert subprocess.check_output([sys.executable, "-c", script], text=True) == "[]\n"


async def test_a_stdio_servers_tools_appear_and_can_be_called(
    sdk_server: ServerConfig, call: "Call"
) -> None:
    """S1-42: they look like built-in tools, and a read-only hint is kept."""
    changes: list[ServerState] = []
    async with McpServers(os.environ, on_change=changes.append) as servers:
        servers.start([sdk_server])
        assert servers.states() == (ServerState("fixture", ServerPhase.CONNECTING),)
        assert await servers.wait_started(LIMIT_S)

        tools = {tool.name: tool for tool in servers.tools()}
        add = tools["mcp__fixture__add"]
        result = await call(servers, "mcp__fixture__add", {"a": 2, "b": 3})

        assert list(tools) == sorted(tools)
        assert (add.label, add.description, add.changes) == (
            "fixture: add",
            "Add two numbers",
            False,
        )
        assert tools["mcp__fixture__count"].changes
        assert (result.text, result.is_error) == ("5", False)
    assert phases(changes, "fixture") == [
        ServerPhase.CONNECTING,
        ServerPhase.READY,
        ServerPhase.CLOSED,
    ]


async def test_server_inherits_only_harmless_variables(
    sdk_server: ServerConfig, call: "Call"
) -> None:
    """Threat 8: no key of ours or of others, no variable that changes its interpreter's start."""
    harmless = {"HTTPS_PROXY": "http://a", "http_proxy": "http://b", "LC_TIME": "C"}
    others = {
        "ANTHROPIC_API_KEY": "sk-ours",
        "AWS_SECRET_ACCESS_KEY": "s",
        "GITHUB_TOKEN": "g",
        "NPM_CONFIG_NODE_OPTIONS": "-r x",
        "npm_config_registry": "x",
        "PERL5OPT": "x",
        "JAVA_TOOL_OPTIONS": "x",
        "RUBYOPT": "x",
        "DOCKER_HOST": "x",
        "ADDED": "no",
    }
    environment = os.environ | harmless | others
    async with McpServers(environment) as servers:
        servers.start([replace(sdk_server, env={"ADDED": "yes"})])
        await servers.wait_started(LIMIT_S)

        seen = [
            (await call(servers, "mcp__fixture__environment", {"name": name})).text
            for name in (*harmless, *others)
        ]

        assert seen == [*harmless.values(), *["(not set)"] * (len(others) - 1), "yes"]


async def test_good_servers_are_ready_while_others_hang_or_crash(
    raw_server: "RawServer", until: Until
) -> None:
    """S1-42: of 20 servers 5 hang and 5 crash; each bad one costs one sentence and no more."""
    hanging = [raw_server({"hang": True}, name=f"hang{i}", startup_timeout_s=600) for i in range(5)]
    crashing = [raw_server({"exit": 1, "stderr": "no key\n"}, name=f"crash{i}") for i in range(5)]
    good = [raw_server(name=f"good{i}") for i in range(10)]
    async with McpServers(os.environ) as servers:
        servers.start([*hanging, *crashing, *good])
        starting = {config.name for config in hanging}
        await until(
            lambda: (
                {each.name for each in servers.states() if each.phase is ServerPhase.CONNECTING}
                == starting
            )
        )

        phase_of = {state.name: state.phase for state in servers.states()}
        assert {phase_of[config.name] for config in good} == {ServerPhase.READY}
        assert len(servers.tools()) == 20
        failed = {each.name: each.reason for each in servers.states() if each.reason}
    assert failed == {
        config.name: f"MCP server '{config.name}' did not start: it ended (exit code 1) before it"
        ' was ready; the end of its stderr: "no key"'
        for config in crashing
    }


async def test_a_server_that_hangs_costs_its_limit_and_one_sentence(
    raw_server: "RawServer",
) -> None:
    hanging = [raw_server({"hang": True}, name=f"hang{i}", startup_timeout_s=1) for i in range(5)]
    async with McpServers(os.environ) as servers:
        servers.start(hanging)
        assert await servers.wait_started(LIMIT_S)

        assert {state.name: state.reason for state in servers.states()} == {
            config.name: f"MCP server '{config.name}' did not start: no answer within 1 s"
            for config in hanging
        }


async def test_start_failure_quotes_the_end_of_a_long_line_from_a_whole_word_on(
    raw_server: "RawServer",
) -> None:
    """Half of a name looked like another name."""
    async with McpServers(os.environ) as servers:
        servers.start([raw_server({"stderr": f"named {'mcp.server ' * 40}\n", "exit": 1})])
        await servers.wait_started(LIMIT_S)

        _, _, quoted = servers.states()[0].reason.partition('stderr: "')
        assert set(quoted.removesuffix('"').split()) == {"…", "mcp.server"}


async def test_start_failure_quotes_only_the_last_lines_of_stderr(raw_server: "RawServer") -> None:
    """The rest of the log and terminal control sequences are left out."""
    noise = "noise\n" * 10_000 + "Traceback\n\x1b[31mfatal:\x1b[0m missing key\n\n"
    async with McpServers(os.environ) as servers:
        servers.start([raw_server({"stderr": noise, "exit": 1})])
        await servers.wait_started(LIMIT_S)

        assert servers.states()[0].reason == (
            "MCP server 'raw' did not start: it ended (exit code 1) before it was ready; "
            'the end of its stderr: "noise / Traceback / fatal: missing key"'
        )


async def test_start_failure_quotes_what_a_program_without_mcp_prints(
    raw_server: "RawServer",
) -> None:
    """A program that only prints its usage, or a shell's prompt, is told apart from a slow one."""
    usage = raw_server({"stdout": "usage: tool\n\n", "exit": 2}, name="ends")
    shell: dict[str, Json] = {"stdout": "\x1b[1m> \x1b[0m\nready\n", "hang": True}

    async def reasons(limit_s: int) -> list[str]:
        async with McpServers(os.environ) as servers:
            servers.start([usage, raw_server(shell, name="waits", startup_timeout_s=limit_s)])
            await servers.wait_started(LIMIT_S)
            ended, waiting = (state.reason for state in servers.states())
        return [ended, waiting.replace(f"no answer within {limit_s} s", "no answer in time")]

    found = await at_growing_limits(reasons, lambda found: "it printed" in found[1])

    assert found == [
        "MCP server 'ends' did not start: it ended (exit code 2) before it was ready; "
        'it printed on its standard output: "usage: tool"',
        "MCP server 'waits' did not start: no answer in time; "
        'it printed on its standard output: "> / ready"',
    ]


async def test_refused_handshake_is_reported_with_the_servers_reason(
    raw_server: "RawServer",
) -> None:
    """The error of a request whose id was not read has none itself."""
    refusal: Json = {"id": None, "error": {"code": -32600, "message": "no licence"}}
    async with McpServers(os.environ) as servers:
        servers.start([raw_server({"answers": {"initialize": refusal}})])
        await servers.wait_started(LIMIT_S)

        assert servers.states()[0].reason == (
            "MCP server 'raw' did not start: it answered: no licence"
        )


async def test_server_without_a_name_or_with_a_number_as_version_is_used(
    raw_server: "RawServer",
) -> None:
    about: Json = {"result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}}
    named: Json = {
        "result": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "server", "version": 1.0},
        }
    }
    async with McpServers(os.environ) as servers:
        servers.start(
            [
                raw_server({"answers": {"initialize": about}}, name="nameless"),
                raw_server({"answers": {"initialize": named}}, name="numbered"),
            ]
        )
        await servers.wait_started(LIMIT_S)

        assert [state.phase for state in servers.states()] == [ServerPhase.READY] * 2


async def test_missing_server_command_is_named_in_the_error(raw_server: "RawServer") -> None:
    async with McpServers(os.environ) as servers:
        servers.start([ServerConfig(name="gone", command="no-such-program")])
        await servers.wait_started(LIMIT_S)

        assert servers.states()[0].reason == (
            "MCP server 'gone' did not start: the command 'no-such-program' was not found; "
            "install it or give its path"
        )


@pytest.mark.parametrize(
    ("variable", "value", "reason"),
    [
        (
            *("SSL_CERT_FILE", "/nowhere.pem"),
            "the certificates cannot be read (No such file or directory); check SSL_CERT_FILE and"
            " SSL_CERT_DIR",
        ),
        (
            *("ALL_PROXY", "socks5://127.0.0.1:1"),
            "a SOCKS proxy needs one more package: pip install socksio, or set another proxy",
        ),
    ],
)
async def test_proxy_or_certificates_that_cannot_be_used_are_named(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, reason: str
) -> None:
    """The reason used to be a command '' that was not found."""
    monkeypatch.setenv(variable, value)
    monkeypatch.setitem(sys.modules, "socksio", None)

    async with McpServers(os.environ) as servers:
        servers.start([ServerConfig(name="far", transport="http", url="https://mcp.example/")])
        await servers.wait_started(LIMIT_S)

        assert servers.states()[0].reason == (
            f"MCP server 'far' did not start: https://mcp.example/: {reason}"
        )


async def test_whole_command_line_in_place_of_a_program_is_told_apart() -> None:
    async with McpServers(os.environ) as servers:
        servers.start([ServerConfig(name="line", command="no-such-program -y server")])
        await servers.wait_started(LIMIT_S)

        assert servers.states()[0].reason == (
            "MCP server 'line' did not start: the command 'no-such-program -y server' was not"
            ' found; write only its first word there, and the others as "args"'
        )


async def test_server_starts_in_its_configured_directory(
    raw_server: "RawServer", tmp_path: Path
) -> None:
    """`./command` is relative to it; an error names a missing directory, not the command."""
    (tmp_path / "its").mkdir()
    (tmp_path / "its" / "python").symlink_to(sys.executable)
    here = replace(raw_server({"pids": "pids"}, name="here"), command="./python")
    async with McpServers(os.environ) as servers:
        servers.start([replace(here, cwd="its"), replace(here, name="gone", cwd="nowhere")])
        await servers.wait_started(LIMIT_S)

        assert Path("its/pids").exists()
        assert servers.states()[0].phase is ServerPhase.READY
        assert servers.states()[1].reason == (
            "MCP server 'gone' did not start: its directory 'nowhere' does not exist; "
            "create it or correct cwd"
        )


async def test_server_whose_files_changed_since_they_were_trusted_is_not_started(
    raw_server: "RawServer",
) -> None:
    """Threat 10: asked at each start of its process, so also when it is started again."""
    changed = replace(raw_server({"pids": "pids"}), objection=lambda: "its files changed")
    async with McpServers(os.environ) as servers:
        servers.start([changed])
        await servers.wait_started(LIMIT_S)

        assert "its files changed" in servers.states()[0].reason
    assert not Path("pids").exists()


async def test_disabled_and_duplicate_servers_are_not_started(
    raw_server: "RawServer",
) -> None:
    async with McpServers(os.environ) as servers:
        servers.start([replace(raw_server(), enabled=False), raw_server()])

        assert await servers.wait_started(0)
        assert servers.states() == (ServerState("raw", ServerPhase.DISABLED),)
        assert servers.tools() == ()


async def test_server_can_be_disabled_and_enabled(raw_server: "RawServer", call: "Call") -> None:
    """Its tools disappear and come back, and the choice is passed on to be stored."""
    kept: list[tuple[str, bool]] = []
    host = Host(remember_switch=lambda name, on: kept.append((name, on)))
    needy = ServerConfig(name="needy", enabled=False, problem="it uses ${TOKEN}, which is not set")
    async with McpServers(os.environ, host=host) as servers:
        servers.start([raw_server(), replace(raw_server(name="off"), enabled=False), needy])
        await servers.wait_started(LIMIT_S)
        await servers.disable("raw")
        without = servers.tools()
        started = await servers.enable("off")
        await servers.enable("raw")
        result = await call(servers, "mcp__raw__reply")
        with pytest.raises(UsageError, match="TOKEN"):
            await servers.enable("needy")

    assert (without, started.phase, result.text) == ((), ServerPhase.READY, "answered")
    assert kept == [("raw", False), ("off", True), ("raw", True)]


async def test_server_disabled_while_it_is_restarted_stays_off(raw_server: "RawServer") -> None:
    """Its new process ran on, with the state "ready" and a connection that no list had."""
    async with McpServers(os.environ) as servers:
        servers.start([raw_server()])
        await servers.wait_started(LIMIT_S)

        await asyncio.gather(servers.reconnect("raw"), servers.disable("raw"))

        assert servers.states() == (ServerState("raw", ServerPhase.DISABLED),)
        assert servers.tools() == ()


async def test_switches_are_remembered_in_the_order_in_which_they_act(
    raw_server: "RawServer",
) -> None:
    """With a slow disk, a server that the later switch had stopped was remembered as on."""
    kept: list[bool] = []
    is_free = threading.Event()

    def remember(_name: str, on: bool) -> None:
        if on:
            is_free.wait(LIMIT_S)
        kept.append(on)

    async with McpServers(os.environ, host=Host(remember_switch=remember)) as servers:
        servers.start([replace(raw_server(), enabled=False)])
        on = asyncio.ensure_future(servers.enable("raw"))
        await asyncio.sleep(0)
        off = asyncio.ensure_future(servers.disable("raw"))
        for _ in range(3):
            await asyncio.to_thread(int)
        is_free.set()
        await asyncio.gather(on, off)

        assert kept == [True, False]
        assert servers.states() == (ServerState("raw", ServerPhase.DISABLED),)


async def test_server_disabled_before_it_was_started_stays_off(raw_server: "RawServer") -> None:
    """The first second goes into loading the SDK; enabled twice, it is started once."""
    async with McpServers(os.environ) as servers:
        servers.start([raw_server(), raw_server(name="other")])
        await servers.disable("raw")
        again = await servers.enable("other")
        await servers.wait_started(LIMIT_S)

        assert (servers.states()[0].phase, again.phase) == ("disabled", "ready")
        assert [tool.label.partition(":")[0] for tool in servers.tools()] == ["other", "other"]


async def test_connection_stopped_before_it_began_ends_at_once(raw_server: "RawServer") -> None:
    """Whoever disables a server waits for that."""
    connection = ServerConnection(
        raw_server(), {}, on_change=lambda _state: None, restarts=AT_ONCE, host=Host()
    )
    connection.stop()

    async with asyncio.timeout(LIMIT_S):
        await connection.run()


async def test_server_can_be_disabled_while_a_prompt_waits_for_it(
    raw_server: "RawServer", until: Until
) -> None:
    """The prompt then waits for the others only."""
    async with McpServers(os.environ) as servers:
        servers.start([raw_server({"hang": True}, name="hang"), raw_server()])
        waiting = asyncio.create_task(servers.wait_started(LIMIT_S))
        await until(lambda: servers.states()[1].phase is ServerPhase.READY)
        await servers.disable("hang")

        assert await waiting


async def test_misconfigured_server_is_listed_with_its_problem() -> None:
    """Behind the usable ones, and not at all if one of these has its name."""
    web = ServerProblem("web", 'web: "url" is missing')
    off = ServerConfig(name="off", enabled=False)
    async with McpServers(os.environ) as servers:
        servers.start([web, ServerProblem("off", "twice"), off])

        assert servers.states() == (
            ServerState("off", ServerPhase.DISABLED),
            ServerState("web", ServerPhase.MISCONFIGURED, 'web: "url" is missing'),
        )


async def test_waiting_for_servers_to_start_has_a_time_limit(raw_server: "RawServer") -> None:
    async with McpServers(os.environ) as servers:
        servers.start([raw_server({"hang": True})])

        assert not await servers.wait_started(0.05)


async def test_junk_on_stdout_and_bytes_that_are_not_utf8_do_no_harm(
    raw_server: "RawServer", call: "Call"
) -> None:
    """The SDK alone hangs for good at the byte, and logs a traceback for each invalid line."""
    logged: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.filter = logged.append  # type: ignore[assignment]  # sees each record, passes none on
    logging.getLogger().addHandler(handler)
    junk = "Welcome!\n\n{}\n[1, 2]\nnull\n\u00ff\u00fe\n"
    async with McpServers(os.environ) as servers:
        servers.start([raw_server({"stdout": junk})])
        await servers.wait_started(LIMIT_S)

        result = await call(servers, "mcp__raw__raw", {"line": "{\u00ff oops"})

        assert result.text == "answered"
    logging.getLogger().removeHandler(handler)
    assert logged == []


async def test_malformed_tools_are_left_out_with_a_note(raw_server: "RawServer") -> None:
    """These are tools that the SDK or the API refuses, and duplicate names."""
    schema: Json = {"type": "object"}
    tools: list[Json] = [
        {"name": "good", "description": "first", "inputSchema": schema},
        {"name": "good", "description": "second", "inputSchema": schema},
        {"name": "bare"},
        {"name": "", "inputSchema": schema},
        {"name": "l" * 100_000},
        "text",
        {"name": "list", "inputSchema": {"type": "array"}},
        {"name": "wrong", "inputSchema": {"properties": {"a": {"type": "strin"}}}},
        {"name": "lax", "inputSchema": {}, "outputSchema": {"type": "string"}},
    ]
    async with McpServers(os.environ) as servers:
        servers.start([raw_server({"tools": tools})])
        await servers.wait_started(LIMIT_S)

        state = servers.states()[0]
        assert [(tool.name, tool.description) for tool in servers.tools()] == [
            ("mcp__raw__good", "first"),
            ("mcp__raw__lax", "lax"),
        ]
        assert (state.tools, state.notes) == (
            2,
            (
                "tool bare is left out: inputSchema is missing",
                "a tool is left out: its name is empty",
                "tool " + "l" * 295,
                "a tool is left out: it is not an object",
                "tool list is left out: inputSchema.type must be 'object'",
                "tool wrong is left out: its input schema is not valid: 'strin' is not valid "
                "under any of the given schemas",
            ),
        )


async def test_notes_about_left_out_tools_are_those_of_the_last_listing(
    raw_server: "RawServer", call: "Call", until: Until, tmp_path: Path
) -> None:
    """Each announced change used to add them again, and those of tools corrected since stayed."""
    tools = tmp_path / "tools.json"
    schema = {"type": "object"}

    def offer(*bare: str, also: str) -> None:
        good = [{"name": name, "inputSchema": schema} for name in ("raw", also)]
        tools.write_text(json.dumps([*good, *({"name": name} for name in bare)]))

    changed = '{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}'
    offer("a", "b", also="one")
    async with McpServers(os.environ) as servers:
        servers.start([raw_server({"tools_file": str(tools)})])
        await servers.wait_started(LIMIT_S)
        assert len(servers.states()[0].notes) == 2
        offer("b", also="two")
        await call(servers, "mcp__raw__raw", {"line": changed})
        await until(lambda: "mcp__raw__two" in [tool.name for tool in servers.tools()])
        notes = servers.states()[0].notes

    assert notes == ("tool b is left out: inputSchema is missing",)


async def test_all_pages_of_the_tool_list_are_read(raw_server: "RawServer") -> None:
    tools: list[Json] = [{"name": name, "inputSchema": {"type": "object"}} for name in "cab"]
    async with McpServers(os.environ) as servers:
        servers.start([raw_server({"tools": tools, "pages": True})])
        await servers.wait_started(LIMIT_S)

        assert [tool.name for tool in servers.tools()] == [f"mcp__raw__{name}" for name in "abc"]


async def test_cursor_that_is_a_number_leads_to_the_next_page(raw_server: "RawServer") -> None:
    options: dict[str, Json] = {"pages": True, "cursor_is_a_number": True}
    async with McpServers(os.environ) as servers:
        servers.start([raw_server(options)])
        await servers.wait_started(LIMIT_S)

        assert [tool.name for tool in servers.tools()] == ["mcp__raw__raw", "mcp__raw__reply"]


async def test_endless_tool_list_is_cut_with_a_note(raw_server: "RawServer") -> None:
    """Its last page points at its first; missing tools would go unnoticed."""
    tools: list[Json] = [{"name": name, "inputSchema": {"type": "object"}} for name in "ab"]
    async with McpServers(os.environ) as servers:
        servers.start([raw_server({"tools": tools, "pages": True, "endless": True})])
        await servers.wait_started(LIMIT_S)

        [state] = servers.states()
        assert (state.phase, state.tools) == (ServerPhase.READY, 2)
        assert state.notes == ("its list of tools does not end; only the first 2 are used",)


async def test_server_with_prompts_only_is_ready(raw_server: "RawServer", until: Until) -> None:
    """S1-42: it may refuse to list tools that it never declared."""
    told: dict[str, Json] = {
        "protocolVersion": "2025-11-25",
        "capabilities": {"prompts": {}},
        "serverInfo": {"name": "raw", "version": "1"},
    }
    answers: dict[str, Json] = {
        "initialize": {"result": told},
        "tools/list": {"error": {"code": -32601, "message": "Method not found"}},
        "prompts/list": {"result": {"prompts": [{"name": "review"}]}},
    }
    async with McpServers(os.environ) as servers:
        servers.start([raw_server({"answers": answers})])
        await servers.wait_started(LIMIT_S)
        await until(servers.prompts)

        [state] = servers.states()
        assert (state.phase, state.tools, state.reason) == (ServerPhase.READY, 0, "")
        assert [prompt.name for prompt in servers.prompts()] == ["review"]


async def test_server_that_declares_tools_and_cannot_list_them_is_not_ready(
    raw_server: "RawServer",
) -> None:
    """S1-42: its tools would be missing without a word."""
    answers: dict[str, Json] = {
        "tools/list": {"error": {"code": -32601, "message": "Method not found"}}
    }
    async with McpServers(os.environ) as servers:
        servers.start([raw_server({"answers": answers})])
        await servers.wait_started(LIMIT_S)

        [state] = servers.states()
        assert state.reason == "MCP server 'raw' did not start: it answered: Method not found"


async def test_empty_cursor_ends_a_list(raw_server: "RawServer", until: Until) -> None:
    """S1-42: many servers write "" for none; the first page was listed twice, with a warning."""
    told: dict[str, Json] = {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}, "prompts": {}},
        "serverInfo": {"name": "raw", "version": "1"},
    }
    tools: list[Json] = [{"name": "a", "inputSchema": {"type": "object"}}]
    answers: dict[str, Json] = {
        "initialize": {"result": told},
        "tools/list": {"result": {"tools": tools, "nextCursor": ""}},
        "prompts/list": {"result": {"prompts": [{"name": "review"}], "nextCursor": ""}},
    }
    async with McpServers(os.environ) as servers:
        servers.start([raw_server({"answers": answers})])
        await servers.wait_started(LIMIT_S)
        await until(servers.prompts)

        [state] = servers.states()
        assert (state.tools, state.notes) == (1, ())
        assert [prompt.name for prompt in servers.prompts()] == ["review"]


async def test_empty_list_in_place_of_an_object_is_an_empty_object(raw_server: "RawServer") -> None:
    """PHP writes both alike; tools without arguments were left out."""
    tools: list[Json] = [
        {"name": "a", "inputSchema": {"type": "object", "properties": []}, "annotations": []},
        {"name": "b", "inputSchema": [], "_meta": []},
    ]
    about: dict[str, Json] = {"protocolVersion": "2025-06-18", "capabilities": {"tools": []}}
    answers: dict[str, Json] = {"initialize": {"result": about}}
    async with McpServers(os.environ) as servers:
        servers.start([raw_server({"tools": tools, "answers": answers})])
        await servers.wait_started(LIMIT_S)

        assert [tool.name for tool in servers.tools()] == ["mcp__raw__a", "mcp__raw__b"]
        assert servers.states()[0].notes == ()


async def test_null_in_place_of_an_empty_list_is_none(raw_server: "RawServer") -> None:
    """S1-42: servers in Go write it; they did not start."""
    async with McpServers(os.environ) as servers:
        servers.start([raw_server({"answers": {"tools/list": {"result": {"tools": None}}}})])
        await servers.wait_started(LIMIT_S)

        [state] = servers.states()
        assert (state.phase, state.tools, state.notes) == (ServerPhase.READY, 0, ())


async def test_a_server_that_dies_in_a_call_is_restarted(
    raw_server: "RawServer", call: "Call"
) -> None:
    """S1-42: the call gets an error result, and the next call simply works."""
    changes: list[ServerState] = []
    async with McpServers(os.environ, on_change=changes.append, restarts=AT_ONCE) as servers:
        servers.start([raw_server({"stderr": "last words\n"})])
        await servers.wait_started(LIMIT_S)

        lost = await call(servers, "mcp__raw__reply", {"reply": "die"})
        tools_meanwhile = len(servers.tools())
        again = await call(servers, "mcp__raw__reply")

        assert lost.is_error
        assert lost.text == (
            "MCP server 'raw' ended during the call; the end of its stderr: \"last words\". "
            "The call may have taken effect: check before you repeat it."
        )
        assert tools_meanwhile == 2
        assert (again.text, again.is_error) == ("answered", False)
        [state] = servers.states()
        assert (state.phase, state.reason, state.stderr) == (ServerPhase.READY, "", ("last words",))
        assert state.last_end == changes[2].reason
    assert [(state.phase, state.restarts, state.reason) for state in changes[2:4]] == [
        (
            ServerPhase.LOST,
            1,
            "MCP server 'raw' was lost: it ended (killed by SIGKILL); "
            'the end of its stderr: "last words"',
        ),
        (ServerPhase.CONNECTING, 1, changes[2].reason),
    ]
    assert phases(changes)[4:] == [ServerPhase.READY, ServerPhase.CLOSED]


async def test_proxy_whose_server_forgot_its_session_is_restarted(
    raw_server: "RawServer", call: "Call", tmp_path: Path
) -> None:
    """A proxy such as mcp-remote would report the same at each later call."""
    heard = tmp_path / "heard"
    told = '{"jsonrpc":"2.0","error":{"code":-32000,"message":"No valid session ID provided"}}'
    error: Json = {"code": -32603, "message": f"mcp-remote: Error POSTing to endpoint: {told}"}
    async with McpServers(os.environ, restarts=AT_ONCE) as servers:
        servers.start([raw_server({"record": str(heard)})])
        assert await servers.wait_started(30)
        refused = await call(servers, "mcp__raw__reply", {"reply": {"error": error}})
        others = (
            "the session is not found",
            "Error POSTing to endpoint (HTTP 500): SQL session",
            "Streamable HTTP error: Error POSTing to endpoint: the database session was lost",
        )
        refused_by_itself = [
            await call(
                servers, "mcp__raw__reply", {"reply": {"error": {"code": -32603, "message": other}}}
            )
            for other in others
        ]

    methods = [json.loads(line)["method"] for line in heard.read_text().splitlines()]
    calls = [each for each in methods if each in ("initialize", "tools/call")]
    assert "No valid session ID provided" in refused.text
    assert all(map(str.__contains__, (each.text for each in refused_by_itself), others))
    assert calls == ["initialize", "tools/call", "initialize", *["tools/call"] * 4]


async def test_server_that_keeps_dying_is_given_up_after_three_restarts(
    raw_server: "RawServer", call: "Call", until: Until
) -> None:
    """Its tools stay and report the failure."""
    changes: list[ServerState] = []
    async with McpServers(os.environ, on_change=changes.append, restarts=AT_ONCE) as servers:
        servers.start([raw_server()])
        await servers.wait_started(LIMIT_S)

        for _ in range(4):
            await call(servers, "mcp__raw__reply", {"reply": "die"})
        await until(lambda: servers.states()[0].phase is ServerPhase.FAILED)
        result = await call(servers, "mcp__raw__reply")

    assert phases(changes).count(ServerPhase.READY) == 4
    assert phases(changes)[-1] is ServerPhase.FAILED
    assert (result.text, result.is_error) == (
        "MCP server 'raw' was lost: it ended (killed by SIGKILL); it was restarted 3 times and is"
        " now left alone",
        True,
    )


async def test_restart_count_is_reset_after_a_stable_run(
    raw_server: "RawServer", call: "Call"
) -> None:
    restarts = RestartPolicy(delays_s=(0,), stable_s=0)
    async with McpServers(os.environ, restarts=restarts) as servers:
        servers.start([raw_server()])
        await servers.wait_started(LIMIT_S)

        for _ in range(3):
            await call(servers, "mcp__raw__reply", {"reply": "die"})

        assert (await call(servers, "mcp__raw__reply")).text == "answered"


@pytest.mark.parametrize("http_server", ["http", "sse"], indirect=True)
async def test_an_http_servers_tools_appear_and_can_be_called(
    http_server: "HttpServer", call: "Call"
) -> None:
    """S1-42: the transport is streamable HTTP or the older HTTP with SSE."""
    config = ServerConfig(name="web", transport=http_server.transport, url=http_server.url)
    async with McpServers(os.environ) as servers:
        servers.start([config])
        assert await servers.wait_started(LIMIT_S)

        result = await call(servers, "mcp__web__add", {"a": 2, "b": 3})

        assert (result.text, result.is_error) == ("5", False)


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_http_server_is_used_again_after_an_outage(
    http_server: "HttpServer", call: "Call", protocol: str
) -> None:
    """During the outage a call fails with a reason; then the same tool works again."""
    config = ServerConfig(
        name="web",
        transport="http",
        url=http_server.url,
        protocol="auto" if protocol == "auto" else "legacy",
    )
    async with McpServers(os.environ, restarts=AT_ONCE) as servers:
        servers.start([config])
        await servers.wait_started(LIMIT_S)
        http_server.kill()

        away = await call(servers, "mcp__web__add", {"a": 2, "b": 3})
        [during] = servers.states()
        http_server.start()
        back = await call(servers, "mcp__web__add", {"a": 2, "b": 3})
        [after] = servers.states()

        why = f"cannot reach {http_server.url} (connection refused)"
        assert away.is_error
        assert away.text == f"MCP server 'web' did not get the call: {why}."
        assert (during.phase, during.reason) == (
            ServerPhase.READY,
            f"the last request failed: {why}; the next one tries again",
        )
        assert (back.text, back.is_error) == ("5", False)
        assert (after.phase, after.reason) == (ServerPhase.READY, "")


async def test_a_url_without_a_server_is_reported_in_one_sentence(
    http_server: "HttpServer",
) -> None:
    """The message shows neither password nor query."""
    http_server.kill()
    url = http_server.url.replace("http://", "http://user:s3cret@") + "?key=s3cret"
    async with McpServers(os.environ) as servers:
        servers.start([ServerConfig(name="web", transport="http", url=url)])
        await servers.wait_started(LIMIT_S)

        assert servers.states()[0].reason == (
            f"MCP server 'web' did not start: cannot reach {http_server.url} (connection refused)"
        )


async def test_certificate_that_is_not_trusted_is_reported_as_such(tmp_path: Path) -> None:
    """A company's proxy shows its own: the reason was that nothing answers there."""
    with serve_web(tmp_path, ["docs.example"]) as web:
        url = f"https://127.0.0.1:{web.port}/mcp"
        async with McpServers(os.environ) as servers:
            servers.start([ServerConfig(name="web", transport="http", url=url)])
            await servers.wait_started(LIMIT_S)

            assert servers.states()[0].reason == (
                f"MCP server 'web' did not start: the certificate of {url} is not trusted (unable"
                " to get local issuer certificate); check SSL_CERT_FILE, a proxy that inspects TLS,"
                " and the clock"
            )


async def test_wrong_url_is_reported_with_its_http_status(
    http_server: "HttpServer",
) -> None:
    """Half of all mistakes are a server of the other transport, or a typing error."""
    wrong = http_server.url.replace("/mcp", "/sse")
    config = ServerConfig(name="web", transport="http", url=wrong)
    async with McpServers(os.environ) as servers:
        servers.start([config, replace(config, name="older", transport="sse")])
        await servers.wait_started(LIMIT_S)

        states = servers.states()
        assert [state.name for state in states] == ["web", "older"]
        for state in states:
            assert f"did not start: {wrong} answered with HTTP 404 (Not Found);" in state.reason


@asynccontextmanager
async def answering(answer: Callable[[bytes], str]) -> AsyncGenerator[str]:
    """Answer every request with status and headers; yield the address."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = answer(await reader.readuntil(b"\r\n\r\n"))
        if "\r\n\r\n" not in head:
            head += "\r\nContent-Length: 0\r\n\r\n"
        status, rest = head.split("\r\n", 1)
        if status:
            writer.write(f"HTTP/1.1 {status}\r\nConnection: close\r\n{rest}".encode())
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as web:
        yield f"http://127.0.0.1:{web.sockets[0].getsockname()[1]}"


@each_row("transport", ["http", "sse"])
@each_row(
    ("answer", "refusal"),
    [
        ("401 Unauthorized", "HTTP 401 (Unauthorized)"),
        (
            "403 Forbidden\r\nContent-Type: text/plain\r\nContent-Length: 11\r\n\r\nnot from it",
            "HTTP 403 (Forbidden: not from it)",
        ),
    ],
)
async def test_http_401_and_403_are_reported_as_a_required_sign_in(
    answer: str, refusal: str, transport: TransportName
) -> None:
    """The SDK reports every refusal alike, without its status."""
    async with (
        answering(lambda _request: answer) as address,
        McpServers(os.environ) as servers,
    ):
        url = f"{address}/mcp"
        servers.start([ServerConfig(name="web", transport=transport, url=url)])
        await servers.wait_started(LIMIT_S)

        assert servers.states()[0].reason == (
            f"MCP server 'web' did not start: {url} asks for a sign-in: {refusal};"
            " set its headers, or sign in with /mcp login web (in a shell: agent-cli mcp login web)"
        )


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("202 Accepted", "its answer, HTTP 202 (Accepted), is empty; correct its url"),
        (
            "200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>",
            "its answer, HTTP 200 (OK), is text/html, not MCP; correct its url",
        ),
        ("", "the connection broke off before the answer (Server disconnected without"),
    ],
)
async def test_address_of_something_else_is_reported_as_such(answer: str, reason: str) -> None:
    async with answering(lambda _request: answer) as address, McpServers(os.environ) as servers:
        servers.start([ServerConfig(name="web", transport="http", url=f"{address}/mcp")])
        await servers.wait_started(LIMIT_S)

        assert f"did not start: {address}/mcp: {reason}" in servers.states()[0].reason


async def test_redirect_to_another_host_is_not_followed() -> None:
    """A redirect would take the headers, and so the key, to any address."""
    came: list[bytes] = []

    def redirect(request: bytes) -> str:
        came.append(request)
        return f"307 Temporary Redirect\r\nLocation: {elsewhere}"

    async with answering(redirect) as address, McpServers(os.environ) as servers:
        elsewhere = f"{address.replace('127.0.0.1', 'localhost')}/elsewhere"
        key = {"Authorization": "Bearer s3cret"}
        config = ServerConfig(name="web", transport="http", url=f"{address}/mcp", headers=key)
        servers.start([config])
        await servers.wait_started(LIMIT_S)

        assert f"Redirect to {elsewhere} not followed" in servers.states()[0].reason
        assert servers.states()[0].phase is ServerPhase.FAILED
    assert came
    assert all(request.startswith(b"POST /mcp ") for request in came)


async def test_server_that_fails_in_an_unknown_way_does_not_end_the_others(
    raw_server: "RawServer", monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address without an end of its bracket ended the whole session, and so would a bug."""

    def fail(_self: Link) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr(Link, "_streamable_http", fail)
    async with McpServers(os.environ) as servers:
        odd = ServerConfig(name="odd", transport="sse", url="http://user:secret@[::1?key=secret")
        bug = ServerConfig(name="bug", transport="http", url="http://127.0.0.1:1/mcp")
        servers.start([odd, bug, raw_server()])
        await servers.wait_started(LIMIT_S)
        states = {state.name: state for state in servers.states()}

    assert [states[name].phase for name in ("odd", "bug", "raw")] == ["failed", "failed", "ready"]
    assert "secret" not in states["odd"].reason
    assert "a bug" in states["bug"].reason


@pytest.mark.parametrize("is_cut_off", [False, True])
async def test_server_that_ignores_the_end_of_its_session_does_not_block_a_reconnect(
    monkeypatch: pytest.MonkeyPatch, *, is_cut_off: bool
) -> None:
    """A `/mcp reconnect` waited for ever; the second limit is for other ways not to end."""
    name = "pool._CLOSE_LIMIT_S" if is_cut_off else "web_client._GOODBYE_S"
    monkeypatch.setattr(f"agent_cli.mcp_client.{name}", 0.05)
    if is_cut_off:
        monkeypatch.setattr("agent_cli.mcp_client.web_client._GOODBYE_S", 10 * LIMIT_S)
    silent = threading.Event()
    monkeypatch.setattr(Handler, "do_DELETE", lambda _handler: silent.wait(10 * LIMIT_S))
    with hostile_http() as url:
        try:
            async with McpServers(os.environ) as servers, asyncio.timeout(6 * LIMIT_S):
                servers.start([ServerConfig(name="web", transport="http", url=url)])
                await servers.wait_started(LIMIT_S)
                state = await servers.reconnect("web")
                await servers.close(limit_s=0.05)
        finally:
            silent.set()

    assert state.phase is ServerPhase.READY


async def test_two_reconnects_at_once_leave_one_connection(raw_server: "RawServer") -> None:
    """Two would start the server twice and take its answers from each other."""
    async with McpServers(os.environ) as servers:
        servers.start([raw_server()])
        await servers.wait_started(LIMIT_S)
        await asyncio.gather(servers.reconnect("raw"), servers.reconnect("raw"))
        running = [repr(task.get_coro()) for task in asyncio.all_tasks()]

    assert sum("ServerConnection.run" in each for each in running) == 1


async def test_missing_sdk_fails_the_server_with_a_reason(
    raw_server: "RawServer", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "agent_cli.mcp_client.connection", None)
    async with McpServers(os.environ) as servers:
        servers.start([raw_server()])
        await servers.wait_started(LIMIT_S)

        assert servers.states()[0].phase is ServerPhase.FAILED
        assert "did not start: the SDK is missing" in servers.states()[0].reason


async def test_servers_that_ignore_sigterm_are_closed_concurrently(
    raw_server: "RawServer", tmp_path: Path, until: Until
) -> None:
    """They ignore the end of stdin and SIGTERM, and so do their children; none is left."""
    files = [tmp_path / f"pids{i}" for i in range(3)]
    async with McpServers(os.environ) as servers:
        servers.start(
            [raw_server({"stubborn": True, "pids": str(file)}, name=file.name) for file in files]
        )
        await servers.wait_started(LIMIT_S)
        pids = [int(pid) for file in files for pid in file.read_text().split()]
        started_s = unstalled_s()

    assert unstalled_s() - started_s < 3 * 2.0
    assert len(pids) == 6
    await until(lambda: not any(map(is_alive, pids)))


@pytest.mark.parametrize("listing", [McpServers.prompts, McpServers.resources])
async def test_prompts_and_resources_are_listed_while_a_server_is_added(
    listing: Callable[[McpServers], Sequence[object]],
) -> None:
    """The completion lists them in its thread, and the event loop adds servers meanwhile."""

    class Connection:
        @property
        def offering(self) -> SimpleNamespace:
            connections["late"] = self
            return SimpleNamespace(catalogue=SimpleNamespace(prompts=(), resources=()))

    async with McpServers(os.environ) as servers:
        connections: dict[str, Any] = {"early": Connection(), "other": Connection()}
        servers._connections = connections

        assert listing(servers) == ()

        connections.clear()


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
async def test_killed_watcher_leaves_no_server_process(
    raw_server: "RawServer", tmp_path: Path, until: Until
) -> None:
    """It cannot clean up itself; the watcher of the watcher does."""
    file = tmp_path / "pids"
    changes: list[ServerState] = []
    async with McpServers(os.environ, on_change=changes.append, restarts=AT_ONCE) as servers:
        servers.start([raw_server({"stubborn": True, "pids": str(file), "daemon": True})])
        await servers.wait_started(LIMIT_S)
        pids = [int(pid) for pid in file.read_text().split()]

        os.kill(parent_of(pids[0]), signal.SIGKILL)
        await until(lambda: not any(map(is_alive, pids)))
        await until(lambda: ServerPhase.LOST in phases(changes))
        await until(lambda: changes[-1].phase is ServerPhase.READY)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
async def test_both_watchers_killed_leave_no_server_process(
    raw_server: "RawServer", tmp_path: Path, until: Until
) -> None:
    """Neither can clean up after the other, so we do: the server's child, a daemon, goes too."""
    file = tmp_path / "pids"
    changes: list[ServerState] = []
    async with McpServers(os.environ, on_change=changes.append, restarts=AT_ONCE) as servers:
        servers.start([raw_server({"stubborn": True, "pids": str(file), "daemon": True})])
        await servers.wait_started(LIMIT_S)
        pids = [int(pid) for pid in file.read_text().split()]
        inner = parent_of(pids[0])

        _kill_together(parent_of(inner), inner)
        await until(lambda: not any(map(is_alive, pids)))
        await until(lambda: ServerPhase.LOST in phases(changes))
        await until(lambda: changes[-1].phase is ServerPhase.READY)


def _kill_together(*pids: int) -> None:
    """Kill processes such that none sees the end of another: stopped ones do nothing first."""
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            os.kill(pid, number)


async def test_closing_does_not_wait_for_a_server_that_is_still_starting(
    raw_server: "RawServer", tmp_path: Path, until: Until
) -> None:
    pids = tmp_path / "pids"
    changes: list[ServerState] = []
    async with McpServers(os.environ, on_change=changes.append) as servers:
        servers.start([raw_server({"hang": True, "pids": str(pids)})])
        await until(pids.exists)

    assert phases(changes) == [ServerPhase.CONNECTING, ServerPhase.CLOSED]


async def test_exception_while_servers_run_is_raised_unchanged(raw_server: "RawServer") -> None:
    """A TaskGroup would wrap it, but callers catch its type."""
    with pytest.raises(KeyError):
        async with McpServers(os.environ) as servers:
            servers.start([raw_server()])
            raise KeyError("a bug")


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_no_server_survives_the_end_of_the_program(
    raw_server: "RawServer", tmp_path: Path, end: signal.Signals
) -> None:
    """S1-42: a server that ignores every request to end is gone after 2 s, with its child."""
    file = tmp_path / "pids"
    config = raw_server({"stubborn": True, "pids": str(file)})
    with forked.start(HOLDER, config.command, *config.args, environment=os.environ) as program:
        assert program.stdout.readline() == "ready\n"
        pids = [int(pid) for pid in file.read_text().split()]

        program.send_signal(end)
        program.wait()

        wait_until(lambda: not any(map(is_alive, pids)), "the servers are gone", promised_s=2)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
async def test_next_program_ends_what_one_killed_with_both_watchers_left(
    raw_server: "RawServer", tmp_path: Path, until: Until
) -> None:
    """Nobody is left to see it then; the servers of a program that lives are left alone."""
    left, kept = tmp_path / "left", tmp_path / "kept"
    config = raw_server({"stubborn": True, "pids": str(left), "daemon": True})
    with forked.start(HOLDER, config.command, *config.args, environment=os.environ) as program:
        assert program.stdout.readline() == "ready\n"
        pids = [int(pid) for pid in left.read_text().split()]
        inner = parent_of(pids[0])
        _kill_together(program.pid, parent_of(inner), inner)

    async with McpServers(os.environ) as ours, McpServers(os.environ) as servers:
        ours.start([raw_server({"stubborn": True, "pids": str(kept)})])
        await ours.wait_started(LIMIT_S)
        servers.start([raw_server()])
        await servers.wait_started(LIMIT_S)

        await until(lambda: not any(map(is_alive, pids)))
        assert all(is_alive(int(pid)) for pid in kept.read_text().split())
