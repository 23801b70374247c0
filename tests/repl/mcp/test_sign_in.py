"""Signing in to a remote MCP server."""

import asyncio
from dataclasses import dataclass, field

import pytest

from agent_cli.contracts.errors import UsageError
from agent_cli.repl.commands import Context
from agent_cli.repl.commands.mcp import SignIn
from tests.repl.mcp.test_dialogs import Answer, Person
from tests.repl.scripted_app import Application
from tests.tables import each_row


@dataclass
class Waiting(Person):
    """Reads the question without answering."""

    asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def choose(self, message: str, keys: str) -> str:
        self.asked.set()
        await asyncio.Event().wait()
        raise AssertionError


@pytest.fixture(autouse=True)
def no_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROWSER", "true")


def signing_in(person: Person) -> SignIn:
    return SignIn(Context(Application(), person, person, print, print), "web")


@each_row("end", [KeyboardInterrupt, EOFError])
async def test_ctrl_c_ends_the_sign_in_without_interrupting_the_event_loop(end: Answer) -> None:
    """A task of the connection shows the page, and must not see an interrupt."""
    with pytest.raises(ExceptionGroup) as raised:
        await signing_in(Person([end])).visit("https://a.example")

    assert [str(error) for error in raised.value.exceptions] == ["you gave up"]


async def test_stopped_sign_in_command_withdraws_its_question() -> None:
    """The connection continues without it; the next line is a prompt again."""
    person = Waiting([])
    sign_in = signing_in(person)

    visiting = asyncio.ensure_future(sign_in.visit("https://a.example"))
    await person.asked.wait()
    sign_in.give_up()

    with pytest.raises(ExceptionGroup):
        await visiting


async def test_sign_in_page_that_is_not_a_web_page_is_not_opened() -> None:
    """The authorization server names it, and may be hostile."""
    with pytest.raises(
        UsageError, match="MCP server web names a sign-in page that is not a web page"
    ):
        await signing_in(Person([])).visit("file:///etc/passwd")
