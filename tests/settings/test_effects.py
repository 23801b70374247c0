"""Every setting, set through a file, changes the behaviour of the running program."""

from pathlib import Path

import pytest

from agent_cli.settings.extension_settings import HookSettings, McpServer
from agent_cli.settings.layers import all_rules, rules_of
from agent_cli.settings.schema import LogSink, StatusLineSettings
from tests.settings.effects import ROWS, Row
from tests.settings.files import write_user_settings

TESTS = Path(__file__).parents[1]
# Settings that need a special server are set by the tests beside that part.
ELSEWHERE = {
    "provider.wire_api": "e2e/test_chat_api.py",
    "provider.threads_above_tokens": "e2e/test_cached_sessions.py",
    "provider.threads_elsewhere": "e2e/test_cached_sessions.py",
    "keep_cache_warm": "app/models/test_warming.py",
    "reread_question_usd": "e2e/test_cached_sessions.py",
    "history.leave_out_old_results": "e2e/test_cached_sessions.py",
    "agents.max_parallel": "app/agents/test_agents.py",
    **dict.fromkeys(
        (f"status_line.{name}" for name in StatusLineSettings._fields), "app/test_status_line.py"
    ),
    "mcp.servers.transport": "mcp_client/test_pool.py",
    "mcp.servers.command": "mcp_client/test_entries.py",
    "mcp.servers.args": "mcp_client/test_entries.py",
    "mcp.servers.env": "mcp_client/test_entries.py",
    "mcp.servers.cwd": "mcp_client/test_entries.py",
    "mcp.servers.url": "mcp_client/test_pool.py",
    "mcp.servers.headers": "mcp_client/test_oauth.py",
    "mcp.servers.oauth": "mcp_client/test_entries.py",
    "mcp.servers.protocol": "mcp_client/test_features.py",
    "telemetry.flush_timeout_s": "telemetry/test_program.py",
}
# Derived from the events in hooks/test_settings.py.
EVENTS_OF_HOOKS = {f"hooks.{name}" for name in rules_of(HookSettings) if name != "claude_files"}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.key)
def test_setting_in_a_file_changes_the_programs_behaviour(row: Row) -> None:
    """S1-25, S1-43: the effect is seen with the setting, and differs without it."""
    write_user_settings(f"{row.base}{row.other}\n")
    without = row.see()
    write_user_settings(f"{row.base}{row.line}\n")

    assert row.see() == row.expected
    assert without != row.expected


def test_every_setting_has_a_row_in_the_effects_table() -> None:
    """A new setting without a row fails here; a setting that nothing reads fails above."""
    keys = {*all_rules()}
    for table, record in {"mcp.servers": McpServer, "logging.sinks": LogSink}.items():
        keys |= {f"{table}.{name}" for name in rules_of(record)}
    rows = [row.key for row in ROWS]

    assert {*rows, *ELSEWHERE, *EVENTS_OF_HOOKS} == keys
    assert len(rows) == len({*rows})


@pytest.mark.parametrize(("key", "place"), ELSEWHERE.items())
def test_settings_covered_by_other_test_files_are_mentioned_there(key: str, place: str) -> None:
    assert key.rpartition(".")[2] in (TESTS / place).read_text()
