"""A malicious repository, opened by every door of the program: nothing in it acts before trust."""

import asyncio
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acp.editor import editor_of_program
from tests.e2e.program import AGENT_CLI, agent_cli, environment
from tests.e2e.test_hostile_repository import hostile, trap, was_called
from tests.forked import start
from tests.mcp_server.test_server import called, serving_program
from tests.messages_api import FakeMessagesApi, reply, serve_in_thread
from tests.repl.terminal import Terminal

_LIBRARY = "import asyncio, agent_cli; print(asyncio.run(agent_cli.query('hi')).text)"
# As `git -c`, so that the test itself runs nothing of the repository.
_HARMLESS = ("core.fsmonitor=false", "core.hooksPath=/dev/null", "filter.x.clean=cat")


def _prints(*arguments: str) -> Callable[[FakeMessagesApi], str]:
    return lambda api: agent_cli(*arguments, api=api).stdout


def _worktree(api: FakeMessagesApi) -> str:
    settings = [part for each in _HARMLESS for part in ("-c", each)]
    identity = ("-c", "user.name=T", "-c", "user.email=t@example.com")
    for command in (("add", "."), ("commit", "--quiet", "--message", "first")):
        subprocess.run(["git", *settings, *identity, *command], check=True, capture_output=True)
    return _prints("-p", "hi", "--worktree")(api)


def _batch(api: FakeMessagesApi) -> str:
    Path("tasks.jsonl").write_text('{"id": "a", "prompt": "see @act.sh and @/etc/passwd"}\n')
    output = agent_cli("batch", "tasks.jsonl", api=api).stdout
    assert "root:" not in str(api.requests[0].body)
    return output


def _library(api: FakeMessagesApi) -> str:
    # Beside the folder, so that nothing of the repository is on its path.
    script = Path.home() / "library.py"
    script.write_text(_LIBRARY)
    with start(str(script), environment=environment(api, {})) as program:
        return program.communicate()[0]


def _serve(api: FakeMessagesApi) -> str:
    async def ask() -> str:
        async with serving_program(api) as client:
            return str(await called(client, "ask", prompt="hi"))

    return asyncio.run(ask())


def _acp(api: FakeMessagesApi) -> str:
    async def prompt() -> str:
        async with editor_of_program(api) as (client, _):
            await client.say(await client.open(), "hi")
            return str(client.updates)

    return asyncio.run(prompt())


def _repl(api: FakeMessagesApi) -> str:
    with Terminal(AGENT_CLI, **environment(api, {})) as terminal:
        terminal.until("until they change? [y/N]")
        terminal.send("n\r")
        terminal.until("you>")
        terminal.send("hi\r")
        terminal.until("Hello.")
        terminal.until_prompt()
        return terminal.transcript


DOORS: dict[str, tuple[Callable[[FakeMessagesApi], str], str]] = {
    "-p": (_prints("-p", "hi"), "Hello."),
    "-p --worktree": (_worktree, "Hello."),
    "REPL": (_repl, "Hello."),
    "batch": (_batch, "a: done"),
    "ACP": (_acp, "Hello."),
    "mcp serve": (_serve, "Hello."),
    "library": (_library, "Hello."),
    "trust --show": (_prints("trust", "--show"), "act.sh"),
    "doctor": (_prints("doctor"), "sandbox"),
    "mcp": (_prints("mcp", "test"), ""),
    "hooks": (_prints("hooks", "test", "SessionStart"), ""),
    "config": (_prints("config", "show"), "permissions.mode"),
    "permissions": (_prints("permissions", "explain", "bash", "git status"), "git status"),
}


@pytest.mark.parametrize("door", DOORS)
def test_no_door_lets_a_malicious_repository_act_before_trust(door: str) -> None:
    """Threats 10, 11, 13 and 24: no program, connection or setting, and the door itself opens."""
    opened, shows = DOORS[door]
    with trap() as listener, serve_in_thread(reply("Hello.")) as api:
        made = hostile(f"http://127.0.0.1:{listener.getsockname()[1]}")
        output = opened(api)

        assert not was_called(listener)
    assert shows in output
    assert not made.exists()
