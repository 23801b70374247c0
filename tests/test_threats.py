"""The attacks of the threat model, each with a test that names it.

The attacker wrote the repository, a dependency, a page, or the output of a tool or server, or is
another user of this machine; not the user, not root, not the kernel. A test names the attacks it
covers by number in its docstring.
"""

import asyncio
import os
import re
from pathlib import Path

import pytest

from agent_cli.contracts.timeline import Json
from agent_cli.mcp_client import McpServers, ServerConfig
from agent_cli_tools import Workspace, builtin_tools
from agent_cli_tools.session_resources import SessionResources
from tests.tools.calling import Tools

THREATS = {
    1: "paths that lead out: .., absolute, //, ~, a sibling with the same beginning",
    2: "symlinks and hard links, in the middle and at the end",
    3: "a link swapped in between check and use",
    4: "secrets read by any tool: .env, keys, environments, an AGENTS.md that links to one",
    5: "instructions in files, outputs, names and commit messages",
    6: "servers that poison, shadow or change their tools",
    7: "escape sequences for the terminal",
    8: "characters that hide or reorder what is approved, lines too long to read",
    9: "secrets in sessions, logs, reports and command lines",
    10: "settings, servers, skills and commands of a repository, also in a home directory",
    11: "git: monitors, hooks, filters, nested repositories, forged folders",
    12: "Python modules in the working directory",
    13: "programs of the workspace on PATH",
    14: "giant outputs and lines",
    15: "fork bombs, hogs of memory, daemons",
    16: "small files that become huge when unpacked",
    17: "regular expressions that take for ever",
    18: "addresses inside the network, redirects to them",
    19: "what cannot be taken back",
    20: "keys typed ahead, and text that looks like a question",
    21: "other users, and names in /tmp that can be guessed",
    22: "plugins and sub-agents with more rights than their parent",
    23: "web pages and other users that call the HTTP server of mcp serve",
    24: (
        "a name that leads to a file of someone else: links out of and into the workspace, chains,"
        " hard links, parent folders, worktrees"
    ),
    25: "a command that runs read-only before anybody is asked",
    26: "a call worded so that the judge of the mode auto says yes",
    27: (
        "a token that answers a question: forged, replayed, late, for another call, or in the hands"
        " of the repository"
    ),
}
_NAMED = re.compile(r"\bthreats? ((?:\d+(?:, | and )?)+)", re.IGNORECASE)
_INTERNAL = (
    *("http://169.254.169.254/latest/meta-data", "http://[::1]/", "http://0x7f.1/"),
    *("http://127.0.0.1:9/", "file:///etc/passwd", "ftp://localhost/x", "gopher://localhost:9/x"),
)


def test_each_threat_has_a_test() -> None:
    """Nothing else would notice a missing test."""
    texts = [path.read_text() for path in Path(__file__).parent.rglob("test_*.py")]
    named = {
        int(number)
        for text in texts
        for found in _NAMED.findall(text)
        for number in re.findall(r"\d+", found)
    }

    assert named == set(THREATS)


@pytest.mark.parametrize("address", _INTERNAL)
async def test_no_built_in_tool_but_bash_opens_a_network_connection(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threats 16 and 18: nothing is fetched, so nothing is unpacked; the shell is in a sandbox."""
    opened: list[object] = []
    monkeypatch.setattr("socket.socket.connect", lambda _socket, where: opened.append(where))
    workspace = Workspace(tmp_path, shared=SessionResources(spill_dir=tmp_path / "out"))
    calls: dict[str, dict[str, Json]] = {
        "read": {},
        "write": {"content": "x"},
        "edit": {"edits": [{"old": "a", "new": "b"}]},
        "grep": {"pattern": "x"},
        "glob": {"pattern": "*"},
    }

    for name, given in calls.items():
        await Tools(workspace)(name, path=address, **given)

    assert opened == []
    assert {tool.name for tool in builtin_tools(workspace, None)} == {*calls, "bash"}


@pytest.mark.parametrize("status", [302, 307, 308])
async def test_redirect_of_an_mcp_server_is_not_followed(status: int) -> None:
    """Threat 18: addresses reachable only from this machine are not requested for a server."""
    visitors: list[bytes] = []

    async def inside(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visitors.append(await reader.readline())
        writer.close()

    victim = await asyncio.start_server(inside, "127.0.0.1", 0)
    target = f"http://127.0.0.1:{victim.sockets[0].getsockname()[1]}/admin"

    async def redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 {status} Moved\r\nLocation: {target}\r\nContent-Length: 0\r\n"
        writer.write(f"{head}Connection: close\r\n\r\n".encode())
        writer.close()

    server = await asyncio.start_server(redirect, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    async with victim, server, McpServers(os.environ) as servers:
        servers.start([ServerConfig(name="web", transport="http", url=url)])
        await servers.wait_started(20)

        assert servers.tools() == ()
    assert visitors == []


def test_threats_page_names_an_existing_test_for_each_threat() -> None:
    """A promise needs a test; renaming the test must not orphan the promise."""
    page = (Path(__file__).parents[1] / "docs/threats.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| (.+?) \| .+? \| (.+) \|$", page, re.MULTILINE)
    texts = [path.read_text() for path in Path(__file__).parent.rglob("test_*.py")]
    defined = {name for text in texts for name in re.findall(r"def (test_\w+)\(", text)}
    # The rows and the table of doors.
    named = set(re.findall(r"`(test_\w+)`", page))

    assert {int(number): attack.replace("`", "") for number, attack, _ in rows} == THREATS
    assert named - defined == set()
    assert all("`test_" in tests for _, _, tests in rows)
