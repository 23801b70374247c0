"""Many calls and many processes with one sign-in: a real server that rotates its tokens."""

import asyncio
import json
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import Aborted
from agent_cli.mcp_client.browsers import request_browser
from agent_cli.mcp_client.host import Host
from tests import forked, waiting
from tests.mcp_client.sign_in_server import SignInServer, sign_in_server
from tests.mcp_client.test_oauth import config_of, running

if TYPE_CHECKING:
    from tests.mcp_client.conftest import Call

SESSION = str(Path(__file__).with_name("signed_in_session.py"))
CALLS = 20
HELLO = "mcp__web__hello"


@pytest.fixture
def web() -> Iterator[SignInServer]:
    with sign_in_server() as server:
        server.revokes = True
        yield server


async def test_parallel_calls_on_a_signed_in_server_run_at_once(
    web: SignInServer, host: Host, call: "Call"
) -> None:
    """The server answers only when all calls are there: one lock across a response fails this."""
    web.together = threading.Barrier(CALLS)
    async with running(config_of(web), host) as servers:
        await servers.login("web", request_browser())
        calls = [call(servers, HELLO, {"wait": "together"}) for _ in range(CALLS)]
        results = await asyncio.gather(*calls)

    assert [result.text for result in results] == ["hello"] * CALLS


async def test_hung_call_and_held_stream_leave_the_other_calls_alone(
    web: SignInServer, host: Host, call: "Call"
) -> None:
    """Neither the others beside it nor those after it wait; its own effect is unknown."""
    web.holds_stream = True
    config = replace(config_of(web), call_timeout_s=5)
    async with running(config, host) as servers:
        await servers.login("web", request_browser())
        finished: list[str] = []

        async def finish(wait: str) -> str:
            result = await call(servers, HELLO, {"wait": wait})
            finished.append(wait)
            return result.text

        async def beside() -> list[str]:
            await waiting.until(lambda: "held" in web.log)
            return await asyncio.gather(*(finish("") for _ in range(CALLS - 1)))

        hung, others = await asyncio.gather(finish("released"), beside())
        after = await call(servers, HELLO)

    assert finished[-1] == "released"
    assert [*others, after.text] == ["hello"] * CALLS
    assert "may have run" in hung
    assert "cancelled" not in hung


async def test_parallel_calls_with_an_expired_token_refresh_it_once(
    web: SignInServer, host: Host, call: "Call"
) -> None:
    async with running(config_of(web), host) as servers:
        await servers.login("web", request_browser())
        web.expire()
        web.log.clear()
        results = await asyncio.gather(*(call(servers, HELLO) for _ in range(CALLS)))

    assert [result.text for result in results] == ["hello"] * CALLS
    assert web.log.count("token:refresh_token") == 1


async def test_cancelled_call_does_not_lose_the_refresh_it_began(
    web: SignInServer, host: Host, call: "Call"
) -> None:
    """The server has rotated already: its answer is the only way back in."""
    web.holds_refresh = True
    cancel = CancelToken()
    async with running(config_of(web), host) as servers:
        await servers.login("web", request_browser())
        web.expire()
        web.log.clear()

        async def cancel_during_refresh() -> None:
            await waiting.until(lambda: "token:refresh_token" in web.log)
            cancel.cancel()

        with pytest.raises(Aborted):
            await asyncio.gather(call(servers, HELLO, cancel=cancel), cancel_during_refresh())
        web.refreshed.set()
        second = await call(servers, HELLO)

    assert second.text == "hello"
    assert web.log.count("token:refresh_token") == 1


async def test_sign_out_of_another_session_is_not_undone_by_a_refresh(
    web: SignInServer, host: Host, call: "Call"
) -> None:
    async with running(config_of(web), host) as servers:
        await servers.login("web", request_browser())
        await asyncio.to_thread(host.credentials.delete, web.url)
        web.expire()
        web.log.clear()
        result = await call(servers, HELLO)

    assert "the user can run /mcp login web" in result.text
    assert "token:refresh_token" not in web.log
    assert await asyncio.to_thread(host.credentials.read, web.url) is None


@pytest.mark.parametrize("lasts_s", [10, None], ids=["known to be expired", "refused"])
async def test_processes_with_an_expired_token_stay_signed_in(
    web: SignInServer, host: Host, tmp_path: Path, lasts_s: int | None
) -> None:
    """One of them refreshes, the others use its token: a second use would revoke them all."""
    web.lasts_s = lasts_s
    async with running(config_of(web), host) as servers:
        await servers.login("web", request_browser())
    web.log.clear()
    web.expire()

    texts = await asyncio.to_thread(_rounds, web, tmp_path / "credentials", processes=4, rounds=3)

    assert texts == [["hello"] * 4] * 3
    # One that lasts for ten seconds counts as expired at once, so each round may refresh it twice.
    assert lasts_s or web.log.count("token:refresh_token") == 3


def _rounds(web: SignInServer, folder: Path, *, processes: int, rounds: int) -> list[list[str]]:
    """Let all processes call a tool at once, with an expired token; return their results."""
    with ExitStack() as stack, ThreadPoolExecutor(processes) as pool:
        sessions = [
            stack.enter_context(forked.start(SESSION, web.url, str(folder), environment=os.environ))
            for _ in range(processes)
        ]
        results: list[list[str]] = []
        for _ in range(rounds):
            list(pool.map(lambda session: session.stdout.readline(), sessions))
            web.expire()
            for session in sessions:
                session.stdin.write("call\n")
                session.stdin.flush()
            lines = pool.map(lambda session: session.stdout.readline(), sessions)
            results.append([json.loads(line) for line in lines])
    return results
