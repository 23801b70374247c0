"""Files that several sessions change at once."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from agent_cli.mcp_client.config import ServerConfig
from agent_cli.mcp_client.pins import Pins
from agent_cli.mcp_client.user_servers import UserServers

SESSIONS = 4


def test_tools_pinned_by_several_sessions_at_once_are_all_kept(tmp_path: Path) -> None:
    """The runs of a batch begin together; a lost pin would hide a later change of the tool."""
    together, file, server = Barrier(SESSIONS), tmp_path / "pins.json", ServerConfig(name="web")

    def pin(session: int) -> None:
        pins = Pins(file)
        for number in range(10):
            together.wait()
            pins.pin(server, {f"{session}.{number}": "as it was"})

    with ThreadPoolExecutor(SESSIONS) as threads:
        list(threads.map(pin, range(SESSIONS)))

    assert len(Pins(file).of_server(server)) == SESSIONS * 10


def test_servers_added_and_removed_by_several_programs_at_once_are_all_kept(tmp_path: Path) -> None:
    """A script that sets up a machine may run `agent-cli mcp add` several times at once."""
    together, servers = Barrier(SESSIONS), UserServers(tmp_path / "mcp.json")

    def add(program: int) -> None:
        for number in range(10):
            together.wait()
            assert servers.add({f"{program}.{number}": {"command": "x"}, "shared": {}}) in (
                (),
                ("shared",),
            )
            if number:
                servers.remove(f"{program}.{number - 1}")

    with ThreadPoolExecutor(SESSIONS) as threads:
        list(threads.map(add, range(SESSIONS)))

    assert sorted(servers.names()) == [*(f"{each}.9" for each in range(SESSIONS)), "shared"]
