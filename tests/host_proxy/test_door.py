"""The way out of a command in bubblewrap: its own network, and a proxy on the outside."""

import asyncio
import shutil
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from agent_cli.sandbox import PathRules
from tests.host_proxy.stand_in import network
from tests.sandbox.world import World, world
from tests.waiting import at_growing_limits
from tests.web.https_server import Answer, serve_web

GOOD, EVIL = "good.example.com", "evil.example.net"


@pytest.fixture
def place() -> Iterator[World]:
    if shutil.which("curl") is None:
        pytest.skip("no curl")
    with world("bwrap") as place:
        yield place


async def test_command_reaches_allowed_hosts_alone(place: World, tmp_path: Path) -> None:
    """S2-08: with TLS of the host itself; each contact is told once."""
    certificate = place.root / "authority.crt"
    with serve_web(tmp_path, (GOOD, EVIL)) as web:
        certificate.write_bytes(web.authority.read_bytes())
        web.answers["/a"] = Answer(b"hello\n")
        async with network(place, tmp_path, {GOOD: web.port, EVIL: web.port}, [GOOD]) as it:
            run = await it.run(
                f"curl -sS --cacert authority.crt https://{GOOD}/a https://{GOOD}/a;"
                f" curl -sS --cacert authority.crt https://{EVIL}/a;"
                f" curl -s http://{EVIL}/a"
            )

    code, output = run
    assert code == 0
    assert output.startswith(f"hello\nhello\nagent-cli: no rule allows {EVIL}\n")
    assert "CONNECT tunnel failed, response 403" in output
    assert web.requests == [(GOOD, "/a")] * 2
    assert it.told == [f"network: reached {GOOD}", f"network: no rule allows {EVIL}"]


async def test_proxy_is_the_only_way_out(place: World, tmp_path: Path) -> None:
    """Neither this machine nor a resolver, neither the hosts themselves nor another door."""
    with serve_web(tmp_path, (GOOD,)) as web:
        async with network(place, tmp_path, {GOOD: web.port}) as it:
            code, output = await it.run(
                f"curl -s --noproxy '*' --connect-timeout 3 https://{GOOD}/a && echo THROUGH;"
                f" (exec 3<>/dev/tcp/127.0.0.1/{web.port}) 2>/dev/null && echo THROUGH;"
                " (exec 3<>/dev/tcp/93.184.216.1/47128) 2>/dev/null && echo THROUGH;"
                " (exec 3<>/dev/udp/93.184.216.1/53 && echo x >&3) 2>/dev/null && echo THROUGH;"
                " ls -A /run/agent-cli; cat /proc/net/dev | grep -c :"
            )

    assert (code, output) == (0, "1\n")
    assert it.asked == []
    assert web.requests == []
    assert list(tmp_path.glob("net-*")) == []


@pytest.mark.parametrize(
    "command",
    [
        f"git ls-remote ssh://git@{GOOD}/a; git ls-remote git@{EVIL}:a",
        f"ssh git@{GOOD} ls; ssh git@{EVIL} ls",
        f"scp git@{GOOD}:a .; scp git@{EVIL}:a .",
    ],
    ids=["git", "ssh", "scp"],
)
async def test_ssh_goes_through_the_proxy(command: str, place: World, tmp_path: Path) -> None:
    """As far as the greeting: what follows is between ssh and the server."""
    if shutil.which("ssh") is None:
        pytest.skip("no ssh")
    if not command.startswith("git") and not Path("/etc/ssh/ssh_config").exists():
        pytest.skip("no settings of ssh, in whose place ours could be")
    greeted: list[bytes] = []

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        greeted.append(await reader.readline())
        writer.write(b"SSH-2.0-server\r\n")
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1")
    port = server.sockets[0].getsockname()[1]
    async with server, network(place, tmp_path, {GOOD: port}) as it:
        code, output = await it.run(command)

    assert code != 0
    assert [each.startswith(b"SSH-2.0-") for each in greeted] == [True]
    assert f"agent-cli: no rule allows {EVIL}" in output
    assert it.told == [f"network: reached {GOOD}:22", f"network: no rule allows {EVIL}"]


@pytest.mark.parametrize("hidden", ["/etc/ssh", "/etc/ssh/ssh_config"])
def test_hidden_settings_of_ssh_stay_hidden(hidden: str, tmp_path: Path) -> None:
    if not Path("/etc/ssh/ssh_config").exists():
        pytest.skip("no settings of ssh")

    def rules(_root: Path) -> PathRules:
        return PathRules(lambda path: str(path) == hidden, elsewhere=[(Path("/etc/ssh"), 0)])

    async def read(place: World) -> str:
        async with network(place, tmp_path, {}) as it:
            return (await it.run("cat /etc/ssh/ssh_config || echo begun"))[1]

    with world("bwrap", rules=rules) as place:
        output = asyncio.run(read(place))

    assert "Permission denied" in output
    assert "begun" in output


async def test_connections_end_with_their_command(place: World, tmp_path: Path) -> None:
    """A server that answers nothing holds neither the door nor the next command."""

    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.setblocking(False)
        async with network(place, tmp_path, {GOOD: silent.getsockname()[1]}) as it:

            async def reached(limit_s: int) -> tuple[int, socket.socket | None]:
                code, _ = await it.run(f"curl -s -m {limit_s / 2} http://{GOOD}/")
                with suppress(BlockingIOError):  # curl gave up before the proxy had connected
                    return code, silent.accept()[0]
                return code, None

            code, connection = await at_growing_limits(reached, lambda found: found[1])
            assert connection
            connection.settimeout(20)
            with connection:
                while connection.recv(4096):
                    pass

    assert code == 28
