"""Every setting, set through a file, changes the behaviour of the running program."""

from pathlib import Path

import pytest

from agent_cli.settings.extension_settings import HookSettings, McpServer
from agent_cli.settings.layers import all_rules, rules_of
from agent_cli.settings.schema import LogSink, StatusLineSettings
from tests.settings.effects import JOURNEYS, Journey
from tests.settings.files import write_user_settings
from tests.tables import each_row

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


@pytest.mark.parametrize("journey", JOURNEYS, ids=lambda journey: journey.name)
def test_settings_in_a_file_change_the_programs_behaviour(journey: Journey) -> None:
    """S1-25, S1-43: each effect is seen with the settings, and differs without them."""
    rows = journey.rows
    write_lines(journey.base, *(row.other for row in rows))
    without = journey.see()
    write_lines(journey.base, *(row.line for row in rows))

    assert journey.see() == {row.key: row.expected for row in rows}
    assert [row.key for row in rows if without[row.key] == row.expected] == []


def write_lines(*lines: str) -> None:
    """Write the user's settings file; keys of no table must stand before the first table."""
    write_user_settings("\n".join(sorted(lines, key=lambda line: "[[" in line)) + "\n")


def test_every_setting_has_a_row_in_the_effects_table() -> None:
    """A new setting without a row fails here; a setting that nothing reads fails above."""
    keys = {*all_rules()}
    for table, record in {"mcp.servers": McpServer, "logging.sinks": LogSink}.items():
        keys |= {f"{table}.{name}" for name in rules_of(record)}
    rows = [row.key for journey in JOURNEYS for row in journey.rows]

    assert {*rows, *ELSEWHERE, *EVENTS_OF_HOOKS} == keys
    assert len(rows) == len({*rows})


@each_row(("key", "place"), ELSEWHERE.items())
def test_settings_covered_by_other_test_files_are_mentioned_there(key: str, place: str) -> None:
    assert key.rpartition(".")[2] in (TESTS / place).read_text()
