"""Requests and notifications that servers send on their own."""

import pytest

from agent_cli.app.logs import configure
from agent_cli.mcp_client.callbacks import ServerLog
from agent_cli.settings.schema import Settings
from agent_cli.system import paths
from agent_cli.system.redaction import Redactor
from tests.records import captured_records


def test_log_messages_of_a_server_go_to_our_log_and_never_to_the_screen(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Even severe ones stay off the screen, although our own warnings are printed."""
    sinks = configure(Settings().logging, Redactor())
    try:
        ServerLog("docs").write({"level": "emergency", "data": "\x1b[2Jon fire"})
    finally:
        sinks.close()

    assert capfd.readouterr() == ("", "")
    assert '"text": "[2Jon fire"' in paths.log_file().read_text()


def test_log_messages_of_a_server_beyond_a_thousand_in_ten_seconds_are_counted() -> None:
    """A record costs as much as ten messages, and the answer to a call waits behind all of them."""
    now_s = 0.0
    with captured_records() as logged:
        log = ServerLog("docs", lambda: now_s)
        for number in range(1200):
            log.write({"level": "info", "data": f"line {number}"})
        now_s = 10.0
        log.write({"level": "info", "data": "later"})
        log.settle()

    texts = [each["text"] for each in logged if each["event"] == "mcp server says"]
    assert texts == [*(f"line {number}" for number in range(1000)), "later"]
    counted = [each["left_out"] for each in logged if each["event"] == "mcp server says too much"]
    assert counted == [200]
