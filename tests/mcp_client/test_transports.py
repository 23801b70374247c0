"""`headersHelper`: a command makes the headers of a server over HTTP."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agent_cli.contracts.errors import SettingsError
from agent_cli.contracts.servers import ServerPhase
from agent_cli.mcp_client import McpServers, ServerConfig
from agent_cli.mcp_client.transports import all_headers
from tests.mcp_client.hostile_http import Handler, hostile_http

if TYPE_CHECKING:
    from tests.mcp_client.conftest import Call

ENVIRONMENT = {"PATH": os.defpath, "SECRET_KEY": "s3cret"}


def helped(command: str, **more: object) -> ServerConfig:
    given: dict[str, object] = {"name": "web", "transport": "http", "url": "http://x/mcp", **more}
    return ServerConfig(headers_helper=command, **given)  # type: ignore[arg-type]  # test values


async def test_printed_headers_replace_configured_ones_of_the_same_name() -> None:
    """It learns which server it is for, and none of our keys."""
    command = r"""printf '{"authorization": "%s %s%s"}' \
        "$CLAUDE_CODE_MCP_SERVER_NAME" "$CLAUDE_CODE_MCP_SERVER_URL" "$SECRET_KEY" """
    config = helped(command, headers={"Authorization": "old", "X-Kept": "yes"})

    headers = await all_headers(config, ENVIRONMENT)

    assert headers == {"X-Kept": "yes", "authorization": "web http://x/mcp"}


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        ("echo no token >&2; exit 3", "its headersHelper ended with exit code 3: no token"),
        ("echo s3cret", 'its headersHelper must print a JSON object: {"Authorization": "..."}'),
        ("""echo '{"A": 1}'""", "its headersHelper printed 'A', which is no header"),
        (r"""echo '{"A": "x\\r\\nB: y"}'""", "its headersHelper printed 'A', which is no header"),
        ("""echo '{"A": "Zoë"}'""", "its headersHelper printed 'A', which is no header"),
        ("""echo '{"A B": "x"}'""", "its headersHelper printed 'A B', which is no header"),
        ("sleep 600", "its headersHelper took longer than 0.2 s"),
    ],
)
async def test_helper_that_makes_no_headers_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, command: str, fault: str
) -> None:
    """What it printed on stdout may be a token, and is not quoted."""
    if "sleep" in command:
        monkeypatch.setattr("agent_cli.mcp_client.transports._LIMIT_S", 0.2)

    with pytest.raises(SettingsError) as caught:
        await all_headers(helped(command), ENVIRONMENT)

    assert str(caught.value).startswith(fault)
    assert "s3cret" not in str(caught.value)


async def test_expired_header_is_made_anew_and_the_call_repeated(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, call: "Call"
) -> None:
    """The server refused it, so nothing has run; without a helper only a new sign-in would do."""
    valid = tmp_path / "token"
    valid.write_text("one")
    answer = Handler.do_POST
    seen: list[str] = []

    def guarded(handler: Handler) -> None:
        given = handler.headers.get("Authorization", "")
        seen.append(given)
        if given == valid.read_text():
            answer(handler)
        else:
            handler.rfile.read(int(handler.headers["Content-Length"]))
            handler.reply(401, b"")

    monkeypatch.setattr(Handler, "do_POST", guarded)
    printed: Mapping[str, str] = {"Authorization": "$(cat token)"}
    command = f"echo {json.dumps(json.dumps(printed))}"
    with hostile_http() as url:
        async with McpServers(os.environ) as servers:
            servers.start([helped(command, url=url, cwd=str(tmp_path))])
            await servers.wait_started()
            assert servers.states()[0].phase is ServerPhase.READY
            valid.write_text("two")

            result = await call(servers, "mcp__web__good")

    assert result.text == "answered"
    assert {"one", "two"} == set(seen)
