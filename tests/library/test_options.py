"""Options are arguments and settings of the program, and mean the same."""

import subprocess
import sys
from dataclasses import fields

from agent_cli import SessionOptions
from agent_cli.app.arguments import Arguments, parse_arguments
from agent_cli.library.options import SETTING_OF, _arguments
from agent_cli.settings.layers import all_rules

PARTS = {"tools", "agents", "hooks", "plugins", "mcp_servers", "approve", "provider"}
"""Live objects, which no command line can give."""
PASSED = {"workspace", "environment", "settings"}
"""Given to `start`, or settings by any key."""


def test_each_option_is_a_setting_an_argument_or_a_live_part() -> None:
    """None has a second meaning; whoever adds one decides what it is."""
    names = {each.name for each in fields(SessionOptions)}
    kinds = [{*SETTING_OF}, names & {*Arguments._fields}, PARTS, PASSED]

    assert names == set().union(*kinds)
    assert sum(map(len, kinds)) == len(names)
    assert {*SETTING_OF.values()} <= {*all_rules()}


def test_options_become_what_the_command_line_becomes() -> None:
    """As far as there are flags: the same keys, and values that read alike."""
    words = (
        *("--model", "high", "--effort", "low", "--max-tokens", "9", "--permission-mode", "plan"),
        *("--allow", "read", "--allow", "grep", "--deny", "bash", "--max-rounds", "3"),
        *("--max-cost", "0.5", "--no-session", "--continue", "--system-prompt", "s", "--trust"),
    )
    options = SessionOptions(
        model="high",
        effort="low",
        max_tokens=9,
        permission_mode="plan",
        allow=["read", "grep"],
        deny=["bash"],
        max_rounds=3,
        max_cost_usd=0.5,
        keep_session=False,
        continue_session=True,
        system_prompt="s",
        trust=True,
    )

    typed, given = parse_arguments(words), _arguments(options)

    def values(arguments: Arguments) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for key, value, _flag in arguments.overrides:
            several = value if isinstance(value, tuple) else (value,)
            found.setdefault(key, []).extend(map(str, several))
        return found

    assert values(given) == values(typed)
    assert given._replace(overrides=()) == typed._replace(overrides=(), command="print")


def test_options_that_are_not_given_change_nothing() -> None:
    """The user's settings count then."""
    assert _arguments(SessionOptions()) == Arguments(command="print")


def test_importing_the_names_of_a_session_loads_neither_the_program_nor_an_sdk() -> None:
    """A program that may never ask a model does not pay for one; the session loads in a thread."""
    code = "from agent_cli import AgentSession, Hook, SessionOptions, query, tool\n"
    loaded = subprocess.run(
        [sys.executable, "-c", f"{code}import sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout.split()

    heavy = {"agent_cli.app.app", "agent_cli.app.workbench", "anthropic", "httpx2", "mcp", "rich"}
    assert heavy & {*loaded} == set()
