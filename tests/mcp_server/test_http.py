"""The agent as an MCP server over HTTP: its answers, its refusals, and its shutdown."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp_types import ElicitRequestParams, ElicitResult

from tests.e2e.program import agent_cli, processes_with, results_in, text_of
from tests.mcp_server.http_client import HttpServer, serving_http
from tests.messages_api import FakeMessagesApi, reply, tool_use
from tests.waiting import wait_until

WRITE = tool_use("write", {"path": "note.txt", "content": "done\n"})
JSON_RPC = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
SESSIONS_MAX = 64


async def initialized(requests: httpx2.AsyncClient, url: str, **headers: str) -> httpx2.Response:
    return await requests.post(url, json=INITIALIZE, headers=JSON_RPC | headers)


async def test_http_clients_of_both_protocol_revisions_ask_reply_and_approve() -> None:
    """One process serves both, with the same server object as over stdio."""
    asked: list[str] = []

    async def allow(context: Any, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept", content={"allow": True})

    async with FakeMessagesApi() as api, serving_http(api) as server:
        for mode in ("auto", "legacy"):
            Path("note.txt").unlink(missing_ok=True)
            api.script += [reply(WRITE), reply("Written."), reply("Again.")]
            told: list[str | None] = []

            async def progress(progress: float, total: float | None, message: str | None) -> None:
                told.append(message)  # noqa: B023 - called before the loop goes on

            async with server.client(mode, elicitation_callback=allow) as client:
                first = await client.call_tool(
                    "ask", {"prompt": "write it"}, progress_callback=progress
                )
                assert first.structured_content, first.content
                second = await client.call_tool(
                    "reply", {"session": first.structured_content["session"], "prompt": "more"}
                )

            assert Path("note.txt").read_text() == "done\n"
            assert first.structured_content["text"] == "Written."
            assert second.structured_content
            assert second.structured_content["text"] == "Again."
            assert any("note.txt" in (message or "") for message in told)
        assert len(asked) == 2
        assert api.refusals == []


async def test_unauthorized_http_requests_are_refused() -> None:
    """Threat 23: they lack the token, name another host, are huge, or open too many sessions."""
    async with serving_http(None) as server, server.requests() as requests:
        for headers in ({"host": f"evil.test:{server.port}"}, {"origin": "http://evil.test"}):
            refused = await initialized(requests, server.url, **headers)
            assert refused.status_code in (403, 421), headers
        for given in ("", "Basic abc", f"Bearer {server.token}x", f"Bearer {server.token[:-1]}"):
            for path in ("/mcp", "/", "/.well-known/oauth-protected-resource"):
                url = server.url.replace("/mcp", path)
                refused = await initialized(requests, url, authorization=given)
                assert (refused.status_code, path) == (401, path), given
                assert refused.headers["www-authenticate"] == "Bearer"
        twice = [("authorization", f"Bearer {server.token}"), ("authorization", "Bearer other")]
        async with httpx2.AsyncClient(headers=twice) as other:
            assert (await initialized(other, server.url)).status_code == 401

        huge = await requests.post(server.url, content=b" " * 5_000_000, headers=JSON_RPC)
        assert huge.status_code == 413
        opened = [await initialized(requests, server.url) for _ in range(SESSIONS_MAX)]
        assert {each.status_code for each in opened} == {200}
        assert (await initialized(requests, server.url)).status_code == 503
        left = await requests.delete(
            server.url, headers={"mcp-session-id": opened[0].headers["mcp-session-id"]}
        )
        assert left.status_code == 200
        assert (await initialized(requests, server.url)).status_code == 200


async def test_client_disconnect_or_sigterm_ends_the_running_command() -> None:
    """A crashed client sends nothing, but its connection closes. SIGTERM ends the server, too."""
    async with FakeMessagesApi() as api, serving_http(api, "--permission-mode", "yolo") as server:
        for mode in ("auto", "legacy"):
            marker = _next_command(api, mode)
            async with server.client(mode) as client, asyncio.TaskGroup() as group:
                call = group.create_task(client.call_tool("ask", {"prompt": "run"}))
                await asyncio.to_thread(wait_until, Path(mode).exists, f"{mode}: the command runs")
                call.cancel()
            await _has_ended(marker)

        marker = _next_command(api, "crash")
        await _crash_during_a_call(server)
        await _has_ended(marker)

        marker = _next_command(api, "end")
        async with server.requests() as requests:
            cut_off = asyncio.create_task(_call(requests, server))
            await asyncio.to_thread(wait_until, Path("end").exists, "the command runs")
            server.process.send_signal(signal.SIGTERM)
            code = await asyncio.to_thread(server.process.wait, 30)
            await _has_ended(marker)
            with pytest.raises(httpx2.HTTPError):
                await cut_off
        assert code == 128 + signal.SIGTERM
        assert server.process.stderr.read() == ""


def _next_command(api: FakeMessagesApi, name: str) -> str:
    """Let the model run a command that touches *name* and stays; return a way to find it."""
    marker = f"sleep {1000 + len(name)}.{len(api.requests)}{os.getpid():07}"
    api.script.append(reply(tool_use("bash", {"command": f"touch {name}; {marker}"})))
    return marker


async def _has_ended(marker: str) -> None:
    await asyncio.to_thread(wait_until, lambda: not processes_with(marker), "the command has ended")


async def _crash_during_a_call(server: HttpServer) -> None:
    """Let a client of an older revision disappear during a call."""
    async with server.requests() as requests:
        call = asyncio.create_task(_call(requests, server))
        await asyncio.to_thread(wait_until, Path("crash").exists, "the command runs")
    with pytest.raises((httpx2.HTTPError, RuntimeError)):
        await call


async def _call(requests: httpx2.AsyncClient, server: HttpServer) -> None:
    opened = await initialized(requests, server.url)
    session = {"mcp-session-id": opened.headers["mcp-session-id"]} | JSON_RPC
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    await requests.post(server.url, json=ready, headers=session)
    ask = {"name": "ask", "arguments": {"prompt": "run"}}
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": ask}
    (await requests.post(server.url, json=call, headers=session)).raise_for_status()


@pytest.mark.parametrize("source", ["file", "variable"])
async def test_http_token_is_neither_printed_nor_passed_to_commands(source: str) -> None:
    """The agent's commands do not inherit it."""
    token = "a-token-of-the-test-1c9f"
    words: tuple[str, ...] = ()
    if source == "file":
        file = Path("token")
        file.touch(mode=0o600)
        file.write_text(f"{token}\n")
        words = ("--token-file", str(file))
    env = reply(tool_use("bash", {"command": "env"}))
    variable = token if source == "variable" else None
    async with (
        FakeMessagesApi(env, reply("ok")) as api,
        serving_http(
            api, "--permission-mode", "yolo", words=words, MCP_SERVE_TOKEN=variable
        ) as server,
        httpx2.AsyncClient(headers={"authorization": f"bearer {token}"}) as requests,
    ):
        assert token not in server.said
        assert (await initialized(requests, server.url)).status_code == 200
        if source == "variable":
            async with server.client() as client:
                await client.call_tool("ask", {"prompt": "look"})
            assert token not in text_of(results_in(api.requests[1].body)[0])


def test_invalid_http_options_are_refused_in_one_sentence() -> None:
    Path("open").touch(mode=0o644)
    Path("short").touch(mode=0o600)
    cases = {
        ("--port", "1"): "need --http",
        ("--http", "--port", "x"): "--port",
        ("--http", "--port", "65536"): "--port",
        ("--http", "--token-file", "absent"): "absent cannot be read",
        ("--http", "--token-file", "open"): "chmod 600 open",
        ("--http", "--token-file", "short"): "at least 16 ASCII characters",
        ("--sse",): "see agent-cli mcp serve --help",
    }
    for words, sentence in cases.items():
        ended = agent_cli("mcp", "serve", *words)
        assert ended.code == 2, words
        assert sentence in ended.stderr, words
        assert len(ended.stderr.splitlines()) == 1, ended.stderr


async def test_occupied_port_is_reported() -> None:
    async with serving_http(None) as server:
        ended = await asyncio.to_thread(
            agent_cli, "mcp", "serve", "--http", "--port", str(server.port)
        )

    assert ended.code == 2
    assert f"--port {server.port}: " in ended.stderr
