"""Prompts of MCP servers as commands, in a plain session of this process."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.timeline import text_block
from agent_cli.repl.mcp.prompts import typed_arguments
from tests.repl.conversation import converse, said
from tests.repl.scripted_app import Application
from tests.repl.scripted_servers import GREET


def app_with_prompts() -> Application:
    app = Application()
    app.servers.offered = [GREET]
    return app


def sent() -> list[str]:
    return [json.loads(line) for line in Path("prompts.jsonl").read_text().splitlines()]


def test_server_prompt_becomes_the_users_message() -> None:
    """Arguments by position, quoted if they hold blanks; the text sent is shown."""
    _, lines = converse('/mcp__docs__greet "Anna B" cold', app=app_with_prompts())

    assert sent() == ["greet name=Anna B style=cold"]
    assert lines == ["  │ greet name=Anna B style=cold"]


def test_only_the_first_rows_of_a_long_server_prompt_are_shown() -> None:
    """The conversation has all of it."""
    app = app_with_prompts()
    app.servers.asked.blocks = [text_block("\n".join(map(str, range(20))))]

    _, lines = converse("/mcp__docs__greet Anna", app=app)

    assert lines == [*(f"  │ {number}" for number in range(6)), "  │ … 14 more lines"]


def test_missing_required_argument_of_a_server_prompt_is_asked_for() -> None:
    """The question repeats until there is an answer; on a pipe, an error names the argument."""
    _, lines = converse("/mcp__docs__greet", app=app_with_prompts(), answers=("", "Anna"))

    assert sent() == ["greet name=Anna"]
    assert lines == ["name: Who", "  │ greet name=Anna"]
    assert said("/mcp__docs__greet", app=app_with_prompts()) == [
        "/mcp__docs__greet needs name after it"
    ]


def test_help_lists_server_prompts_under_their_server() -> None:
    """Help on one of them also describes each argument."""
    app = app_with_prompts()

    assert "MCP server docs: /mcp__docs__greet" in said("/help", app=app)
    assert said("/help mcp__docs__greet", app=app) == [
        "/mcp__docs__greet name [style]",
        "  Greet somebody",
        "  name: Who",
        "  [style]: How",
        "  from: MCP server docs",
        "  waits for the end of a run",
    ]


@pytest.mark.parametrize(
    ("typed", "given"),
    [
        ("Anna", {"name": "Anna"}),
        ("\"Anna B\" 'very cold'", {"name": "Anna B", "style": "very cold"}),
        ("Anna it's  very warm", {"name": "Anna", "style": "it's  very warm"}),
        ("O'Hara \"unclosed", {"name": "O'Hara", "style": '"unclosed'}),
        ("", {}),
    ],
)
def test_server_prompt_arguments_are_words_and_the_last_takes_the_rest(
    typed: str, given: dict[str, str]
) -> None:
    """A sentence needs no quotes, and may have an apostrophe."""
    assert typed_arguments(GREET, typed) == given


def test_server_prompt_without_arguments_rejects_an_argument() -> None:
    """A superfluous argument is reported, not dropped."""
    with pytest.raises(UsageError, match="/mcp__docs__greet takes no argument"):
        typed_arguments(replace(GREET, arguments=()), "Anna")
