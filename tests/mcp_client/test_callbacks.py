"""Requests and notifications that servers send on their own."""

import mcp_types
import pytest

from agent_cli.app.logs import configure
from agent_cli.mcp_client.callbacks import Callbacks
from agent_cli.mcp_client.host import Host
from agent_cli.mcp_client.limits import SilenceLimits
from agent_cli.settings.schema import Settings
from agent_cli.system import paths
from agent_cli.system.redaction import Redactor


async def test_log_messages_of_a_server_go_to_our_log_and_never_to_the_screen(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Even severe ones stay off the screen, although our own warnings are printed."""
    sinks = configure(Settings().logging, Redactor())
    said = mcp_types.LoggingMessageNotificationParams(level="emergency", data="\x1b[2Jon fire")
    try:
        await Callbacks("docs", Host(), SilenceLimits()).logged(said)
    finally:
        sinks.close()

    assert capfd.readouterr() == ("", "")
    assert '"text": "[2Jon fire"' in paths.log_file().read_text()
