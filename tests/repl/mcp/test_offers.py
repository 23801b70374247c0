"""Prompts of MCP servers as commands, in a plain session of this process."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.servers import ServerResource
from agent_cli.contracts.timeline import Block, text_block
from agent_cli.repl.mcp.offers import Named, named_in, typed_arguments, with_resources
from tests.repl.conversation import converse, said
from tests.repl.mcp.test_dialogs import Person
from tests.repl.scripted_app import Application
from tests.repl.scripted_servers import DAYS, GREET, TODAY, Servers
from tests.tables import each_row


def app_with_prompts() -> Application:
    app = Application()
    app.servers.offered = [GREET]
    return app


def sent() -> list[str]:
    return [json.loads(line) for line in Path("prompts.jsonl").read_text().splitlines()]


def test_server_prompt_is_sent_with_the_line_that_asks_for_it() -> None:
    """Arguments by position, quoted if they hold blanks; the text sent is shown.

    The line alone, which comes last, is the user's word: the judge reads nothing of the server's.
    """
    line = '/mcp__docs__greet "Anna B" cold'

    _, lines = converse(line, app=app_with_prompts())

    assert sent() == [f"greet name=Anna B style=cold{line}"]
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

    assert sent() == ['greet name=Anna/mcp__docs__greet "Anna"']
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


@each_row(
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


DOT = ServerResource(server="docs", uri="note://today.", name="With a dot")


@each_row(
    ("text", "uris"),
    [
        ("what is in @docs:note://today?", ["note://today"]),
        ("see @docs:note://today.", ["note://today."]),
        ("(@docs:note://today)", []),
        ("@docs:note://monday, please", ["note://monday"]),
        ("@docs:other://thing!", ["other://thing"]),
        ("@docs:note://today and @docs:note://today", ["note://today"]),
        ("@src/app.py @docs: @nobody:note://today me@docs:x", []),
    ],
)
def test_resource_is_recognised_by_its_server_and_address(text: str, uris: list[str]) -> None:
    """Punctuation after an address is part of it only if the server lists it so."""
    known = [TODAY, DAYS, DOT] if "." in text else [TODAY, DAYS]

    assert named_in(text, Servers(known=known)) == [Named("docs", uri) for uri in uris]


def test_address_is_matched_with_a_template_of_many_variables_in_no_time() -> None:
    """A hostile server could otherwise stop the program for hours when a prompt is sent."""
    hostile = ServerResource(server="docs", uri=f"x:{'{v}' * 20}!", name="Many", is_template=True)

    def named(uri: str) -> list[Named]:
        return named_in(f"@docs:{uri}", Servers(known=[hostile]))

    assert named(f"x:{'a' * 200},") == [Named("docs", f"x:{'a' * 200}")]
    assert named(f"x:{'a' * 200}!") == [Named("docs", f"x:{'a' * 200}!")]


def test_content_of_a_resource_is_sent_with_the_prompt() -> None:
    """It comes before the text that names it; its size is shown."""
    out, lines = converse("what about @docs:note://today?", app=Application())

    [prompt] = [json.loads(line) for line in Path("prompts.jsonl").read_text().splitlines()]
    assert prompt == "note://today:\nbuy milkwhat about @docs:note://today?"
    assert lines == ["with @docs:note://today: 22 characters"]
    assert "buy milk" in out


def test_prompt_with_an_unreadable_resource_is_not_sent() -> None:
    """The user wants the resource to be read."""
    _, lines = converse("see @docs:note://never", app=Application())

    assert lines == ["MCP server 'docs', resource note://never: there is none"]
    assert not Path("prompts.jsonl").exists()


async def test_long_resource_is_truncated_and_an_image_is_sent_as_an_image() -> None:
    """The limit is 100,000 characters; the model reads how much was left out."""
    image: Block = {"type": "image", "source": {"type": "base64", "data": ""}}
    servers, person = Servers(), Person([])
    servers.asked.blocks = [text_block("a" * 100_002), image]

    message = await with_resources("@docs:note://today", servers, person)

    assert message.content == (
        text_block(f"{'a' * 100_000}\n[2 more characters left out]"),
        image,
        text_block("@docs:note://today"),
    )
    assert person.seen == ["with @docs:note://today: 100,029 characters, 1 image"]
