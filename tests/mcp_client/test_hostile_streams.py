"""Whatever a server does to its stream: the call ends with a sentence, and the next call works."""

import asyncio
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agent_cli.contracts.servers import ServerPhase
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import ToolResult
from agent_cli.mcp_client import McpServers, ServerConfig
from agent_cli.mcp_client.limits import RestartPolicy
from tests.mcp_client import hostile_http, hostile_stdio
from tests.mcp_client.conftest import no_freeze
from tests.tables import each_row
from tests.waiting import at_growing_limits

if TYPE_CHECKING:
    from tests.mcp_client.conftest import Call

SCRIPT = str(Path(hostile_stdio.__file__))
AT_ONCE = RestartPolicy(delays_s=(0, 0, 0))
LIMIT_S = 60
SILENT = [name for name, fate in hostile_stdio.FATES.items() if fate.startswith("gave no sign")]


def local(*arguments: str, call_timeout_s: float = LIMIT_S) -> ServerConfig:
    return ServerConfig(
        name="local",
        command=sys.executable,
        args=("-I", "-S", SCRIPT, *arguments),
        call_timeout_s=call_timeout_s,
    )


def test_there_are_more_than_thirty_hostile_streams() -> None:
    assert len(hostile_stdio.FATES) + len(hostile_http.FATES) > 30


async def test_hostile_stdio_streams_affect_only_their_own_calls(call: "Call") -> None:
    """The server is named whenever the call did not succeed.

    One server does all of it, and is started again after each end: the call after each shows that.
    """
    fates = {name: fate for name, fate in hostile_stdio.FATES.items() if name not in SILENT}
    wrong = dict[str, str]()
    always = RestartPolicy(delays_s=(0,) * len(fates))
    async with McpServers(os.environ, restarts=always) as servers:
        servers.start([local()])
        assert await servers.wait_started(LIMIT_S)
        for action, fate in fates.items():
            async with no_freeze():
                result = await call(servers, "mcp__local__go", {"action": action})
            again = await call(servers, "mcp__local__good")

            if not has_fate(result, fate):
                wrong[action] = result.text
            elif (again.text, again.is_error) != ("answered", False):
                wrong[action] = f"afterwards: {again.text}"

    assert wrong == {}


def has_fate(result: ToolResult, fate: str) -> bool:
    if fate == "answered":
        return not result.is_error and "answered" in result.text
    says = "" if fate == "error" else fate
    return result.is_error and "local" in result.text and says in result.text


@pytest.mark.parametrize("action", SILENT)
async def test_server_that_does_not_answer_is_given_up_and_the_next_call_answered(
    action: str, call: "Call"
) -> None:
    fate = hostile_stdio.FATES[action]

    async def again(limit_s: int) -> str:
        async with McpServers(os.environ, restarts=AT_ONCE) as servers:
            servers.start([local(call_timeout_s=limit_s)])
            assert await servers.wait_started(LIMIT_S)
            async with no_freeze():
                result = await call(servers, "mcp__local__go", {"action": action})
            again = await call(servers, "mcp__local__good")

        assert has_fate(result, fate), result.text
        return again.text

    await at_growing_limits(again, "answered".__eq__)


@each_row(
    ("action", "reason"),
    [
        ("banner", ""),
        ("a_flood_of_messages", ""),
        ("a_line_without_an_end", "it sent a line of more than 32 MB before it was ready"),
        ("only_stdout_is_closed", "it closed its standard output before it was ready"),
        ("exit_in_the_middle", "it ended (exit code 3) before it was ready"),
    ],
)
async def test_hostile_stdio_stream_before_the_handshake_is_survived_or_reported(
    action: str, reason: str
) -> None:
    """The result comes at once, not at the end of the startup timeout."""
    async with McpServers(os.environ) as servers, no_freeze():
        servers.start([local(action)])
        async with asyncio.timeout(LIMIT_S):
            assert await servers.wait_started(LIMIT_S)
        [state] = servers.states()

    assert state.phase is (ServerPhase.FAILED if reason else ServerPhase.READY), state
    assert state.reason == (f"MCP server 'local' did not start: {reason}" if reason else "")


async def test_hostile_http_answers_affect_only_their_own_calls(call: "Call") -> None:
    """An HTTP status comes with a remedy; a lost session is started again.

    One server answers all of them: the call after each shows that the connection is as before.
    """
    wrong = dict[str, str]()
    with hostile_http.hostile_http() as url:
        config = ServerConfig(name="web", transport="http", url=url, protocol="legacy")
        async with McpServers(os.environ, restarts=AT_ONCE) as servers:
            servers.start([config])
            assert await servers.wait_started(LIMIT_S)
            for answer, fate in hostile_http.FATES.items():
                hostile_http.Handler.forgets = True
                async with no_freeze():
                    result = await call(servers, "mcp__web__go", {"action": answer})
                again = await call(servers, "mcp__web__good")

                if result.is_error != (fate != "answered") or fate not in result.text:
                    wrong[answer] = result.text
                elif (again.text, again.is_error) != ("answered", False):
                    wrong[answer] = f"afterwards: {again.text}"
                elif "forgotten" in answer and hostile_http.Handler.forgets:
                    wrong[answer] = "no session was forgotten"

    assert wrong == {}


async def test_server_needs_a_sign_in_until_a_call_has_its_answer(call: "Call") -> None:
    """An outage after the refusal says nothing about the sign-in; /mcp showed it as ready."""
    shown = list[bool]()
    with hostile_http.hostile_http() as url:
        config = ServerConfig(name="web", transport="http", url=url, protocol="legacy")
        async with McpServers(os.environ, restarts=AT_ONCE) as servers:
            servers.start([config])
            assert await servers.wait_started(LIMIT_S)
            for answer in ("unauthorized", "a_reset"):
                await call(servers, "mcp__web__go", {"action": answer})
                shown.append(servers.states()[0].needs_sign_in)
            await call(servers, "mcp__web__good")
            shown.append(servers.states()[0].needs_sign_in)

    assert shown == [True, True, False]


async def test_calls_of_a_forgotten_session_are_all_repeated_in_the_next(call: "Call") -> None:
    """The first refusal begins the new session, and cuts off none of the calls beside it."""
    calls = 5
    hostile_http.Handler.together = threading.Barrier(calls)
    with hostile_http.hostile_http() as url:
        config = ServerConfig(name="web", transport="http", url=url, protocol="legacy")
        async with McpServers(os.environ, restarts=AT_ONCE) as servers:
            servers.start([config])
            assert await servers.wait_started(LIMIT_S)
            asked: dict[str, Json] = {"action": "forgotten_together"}
            results = await asyncio.gather(
                *(call(servers, "mcp__web__go", asked) for _ in range(calls))
            )

    assert [result.text for result in results] == ["answered"] * calls


async def test_a_stream_that_is_to_be_resumed_at_once_is_resumed_a_bounded_number_of_times(
    call: "Call",
) -> None:
    """A server that ends each stream and asks for no pause does not make us flood it."""
    loop = asyncio.get_running_loop()

    async def resumed(limit_s: int) -> int:
        with hostile_http.hostile_http() as url:
            config = ServerConfig(
                name="web", transport="http", url=url, protocol="legacy", call_timeout_s=limit_s
            )
            async with McpServers(os.environ, restarts=AT_ONCE) as servers:
                servers.start([config])
                assert await servers.wait_started(LIMIT_S)
                started = loop.time()
                result = await call(servers, "mcp__web__go", {"action": "come_back"})
                resumed, elapsed_s = hostile_http.Handler.resumed, loop.time() - started

        assert "gave no sign of life" in result.text
        assert resumed <= 20 + elapsed_s + 1
        return resumed

    await at_growing_limits(resumed, bool)
