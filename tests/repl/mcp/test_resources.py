"""Resources of MCP servers named in a prompt."""

import json
from pathlib import Path

import pytest

from agent_cli.contracts.servers import ServerResource
from agent_cli.contracts.timeline import Block, text_block
from agent_cli.repl.mcp.resources import Named, named_in, with_resources
from tests.repl.conversation import converse
from tests.repl.mcp.test_dialogs import Person
from tests.repl.scripted_app import Application
from tests.repl.scripted_servers import DAYS, TODAY, Servers

DOT = ServerResource(server="docs", uri="note://today.", name="With a dot")


@pytest.mark.parametrize(
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
