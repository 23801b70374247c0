"""Dialogs opened by MCP servers: the question shown, valid answers, and the result sent back."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NoReturn

from agent_cli.contracts.dialogs import Filled, Form
from agent_cli.contracts.events import Event, Notice
from agent_cli.contracts.servers import SamplingRequest
from agent_cli.contracts.timeline import Json, text_block
from agent_cli.mcp_client.forms import form_fault, form_fields
from agent_cli.repl.dialogue import DialogParts
from agent_cli.repl.mcp.dialogs import ServerQuestions
from tests.repl.live.test_asking import opened
from tests.repl.live.test_screen import live

Answer = str | type[BaseException]


@dataclass
class Person:
    """Answers one question after the other; records the questions and the text shown."""

    answers: list[Answer]
    can_ask: bool = True
    seen: list[str] = field(default_factory=list[str])
    opened: list[str] = field(default_factory=list[str])

    async def choose(self, message: str, keys: str) -> str:
        answer = self.answers.pop(0)
        if not isinstance(answer, str):
            raise answer
        self.seen.append(f"{message}{answer}")
        await asyncio.sleep(0)
        return answer

    choose_next = choose

    async def choose_key(self, message: str, keys: Sequence[str], *, at_once: bool = False) -> str:
        while (key := await self.choose(message, "")) not in [*keys]:
            pass
        return key

    async def select(self, *_args: object, **_named: object) -> NoReturn:
        raise AssertionError("a server's question looks like one of the program's own")

    def aside(self, text: str, style: str = "plain") -> None:
        self.seen += text.split("\n")

    notice = markdown = aside

    def hear(self, event: Event) -> None:
        assert isinstance(event, Notice)
        assert event.level == "warning"
        self.seen.append(event.text)

    async def open_page(self, url: str) -> None:
        self.opened.append(url)


def parts_of(person: Person) -> DialogParts:
    return DialogParts(questions=person, lines=person, turn=asyncio.Lock())


def asked(*answers: Answer, can_ask: bool = True) -> tuple[ServerQuestions, Person]:
    person = Person([*answers], can_ask)
    parts = parts_of(person)
    dialogs = ServerQuestions(person, parts, publish=person.hear, open_page=person.open_page)
    return dialogs, person


def form(message: str = "Who?", **properties: Json) -> Form:
    schema: dict[str, Json] = {"type": "object", "properties": properties}
    wanted: dict[str, Json] = {**schema, "required": list[Json]([*properties][:1])}
    checked = partial(_fault, schema)
    return Form("docs", message, form_fields(wanted), checked)


def _fault(schema: dict[str, Json], name: str, value: Json) -> str:
    return form_fault(schema, {name: value})


NAME: Json = {"type": "string", "title": "Name", "description": "In full", "maxLength": 5}
AGE: Json = {"type": "integer", "minimum": 18, "default": 30}


async def test_form_is_shown_whole_filled_in_and_reviewed_before_sending() -> None:
    """An invalid value is rejected with a reason and asked for again; Enter takes the default."""
    dialogs, person = asked("y", "", "Anna-Maria", "Anna", "17", "", "y")

    filled = await dialogs.fill_form(form("Who\x1b[2J?\nyou> /exit", name=NAME, age=AGE))

    assert filled == Filled("accept", {"name": "Anna"})
    assert person.seen == [
        "MCP server docs asks you",
        "  │ Who\\x1b[2J?",
        "  │ you> /exit",
        "it wants: Name, age",
        "y = fill it in · n = decline, then Enter · Ctrl-C = cancel",
        "docs: answer? (y/n) y",
        "",
        "1 Name",
        "    In full",
        "    text",
        "2 age",
        "    a whole number",
        "docs: 1 Name> ",
        "  not taken: it is required: text",
        "docs: 1 Name> Anna-Maria",
        "  not taken: name: 'Anna-Maria' is too long",
        "docs: 1 Name> Anna",
        "docs: 2 age [30 · - = empty]> 17",
        "  not taken: age: 17 is less than the minimum of 18",
        "docs: 2 age [30 · - = empty]> ",
        "",
        "this goes to MCP server docs:",
        "  1 Name: Anna",
        "  2 age: 30",
        "y = send · n = decline · a number = change that field, then Enter · Ctrl-C = cancel",
        "docs: send? (y/n/number) y",
    ]


async def test_form_can_be_declined_cancelled_or_corrected() -> None:
    """The server can tell declined from cancelled; nothing typed is sent before the final yes."""
    two = form(name=NAME, age=AGE)

    assert await asked("x", "n")[0].fill_form(two) == Filled("decline")
    stopped, person = asked(KeyboardInterrupt)
    assert await stopped.fill_form(two) == Filled("cancel")
    assert person.seen[-1] == "docs: not answered"
    assert await asked("y", "Anna", EOFError)[0].fill_form(two) == Filled("cancel")
    assert await asked("y", "Anna", "", "n")[0].fill_form(two) == Filled("decline")
    again, person = asked("y", "Anna", "", "?", "3", "²", "1", "", "1", "Bert", "2", "40", "y")
    assert await again.fill_form(two) == Filled("accept", {"name": "Bert", "age": 40})
    assert person.seen.count("docs: 1 Name [Anna]> ") == 1  # Enter keeps it
    assert person.seen.count("docs: 2 age [30 · - = empty]> 40") == 1
    emptied, person = asked("y", "Anna", "40", "2", "-", "1", "-", "y")
    assert await emptied.fill_form(two) == Filled("accept", {"name": "-", "age": None})
    assert "  2 age: -" in person.seen


async def test_command_typed_at_the_review_of_a_form_runs_at_once(tmp_path: Path) -> None:
    """It was dropped without a word; a number of no field says which there are."""
    async with live(tmp_path) as it:
        _, person = asked()
        dialogs = ServerQuestions(it.screen.asking, parts_of(person), publish=person.hear)
        filling = asyncio.ensure_future(dialogs.fill_form(form(name=NAME, age=AGE)))
        await it.until(lambda: it.rows == ["you>"] and it.screen.asking.question is not None)
        it.now_s += 9
        await opened(it, "docs: answer? (y/n)")
        it.type("y\r")
        await opened(it, "docs: 1 Name>")
        it.type("Anna\r")
        await opened(it, "docs: 2 age [30 · - = empty]>")
        it.type("\r")
        review = "docs: send? (y/n/number)"
        await opened(it, review)
        it.type("7\r")
        hint = f"{review} answer y, n, 1 or 2"
        await it.until(lambda: " ".join(row.strip() for row in it.rows).endswith(hint))
        it.type("/help\r")
        await it.until(lambda: it.person.got == [("/help", False)])
        assert it.rows[-1] == review
        it.type("y\r")

        assert await filling == Filled("accept", {"name": "Anna"})
        await it.until(lambda: it.rows[-1] == "you>")


async def test_form_with_one_field_needs_no_review_and_one_without_fields_only_a_yes() -> None:
    """No more questions than the form needs."""
    assert await asked("y", "Anna")[0].fill_form(form(name=NAME)) == Filled(
        "accept", {"name": "Anna"}
    )
    assert await asked("y")[0].fill_form(form("Go on?")) == Filled("accept")


async def test_page_is_shown_in_full_with_its_host_before_opening() -> None:
    """Look-alike letters in a name, or a host hidden after an @, are pointed out."""
    dialogs, person = asked("y", "n", KeyboardInterrupt)

    url = "http://docs.example@p\u0430y.example/1\u202e"
    assert await dialogs.visit_page(server="docs", message="Please pay", url=url) == "accept"

    assert person.seen == [
        "MCP server docs wants you to visit a page",
        "  │ Please pay",
        "  http://docs.example@p\\u0430y.example/1\\u202e",
        "  host: p\\u0430y.example",
        "  careful: it has letters of another alphabet and may imitate another name",
        "  careful: the text before the @ is not the host it leads to",
        "  careful: not encrypted",
        "y = open it in the browser · n = decline, then Enter · Ctrl-C = cancel",
        "docs: open it? (y/n) y",
    ]
    page = partial(dialogs.visit_page, server="docs", message="", url="https://pay.example/2")
    assert [await page(), await page()] == ["decline", "cancel"]
    assert person.opened == [url]


async def test_address_of_a_server_that_is_not_a_web_page_is_never_opened() -> None:
    """Browsers also open files and run scripts."""
    dialogs, person = asked()

    for url in ("file:///etc/passwd", "javascript:alert(1)", "http://[broken"):
        assert await dialogs.visit_page(server="docs", message="", url=url) == "decline"

    assert person.opened == []
    assert person.seen[0] == "MCP server docs may not open file:///etc/passwd: no web page"


async def test_sampling_request_shows_the_messages_and_the_model() -> None:
    """It costs the user's money: only a yes allows it."""
    picture: dict[str, Json] = {"type": "image", "source": {}}
    request = SamplingRequest(
        server="docs",
        messages=(
            ("user", (text_block("2 + 2?\nQuick"), picture)),
            ("assistant", (text_block("a" * 4_001),)),
        ),
        system_prompt="Count.",
        max_tokens=2_000,
    )
    dialogs, person = asked("y", "n", KeyboardInterrupt)

    answers = [await dialogs.allow_sampling(request, model="model-1") for _ in range(3)]

    assert answers == [True, False, False]
    assert person.seen[:9] == [
        "MCP server docs wants to ask model-1 at your expense · at most 2,000 tokens",
        "  system │ Count.",
        "  user │ 2 + 2?",
        "  user │ Quick",
        "  user │ [image]",
        f"  assistant │ {'a' * 4_000}",
        "  assistant │ … and 1 more characters",
        "y = allow it · n = refuse, then Enter",
        "docs: allow? (y/n) y",
    ]


async def test_without_a_user_every_dialog_is_declined_with_a_notice() -> None:
    """On a pipe the server continues without it, and the session's log reports it."""
    dialogs, person = asked(can_ask=False)
    request = SamplingRequest(server="docs", messages=())

    assert await dialogs.fill_form(form(name=NAME)) == Filled("decline")
    assert await dialogs.visit_page(server="docs", message="", url="https://a.example") == "decline"
    assert not await dialogs.allow_sampling(request, model="m")
    assert (
        person.seen
        == ["MCP server docs asked a question, declined: there is no user to answer it"] * 3
    )


async def test_dialogs_of_two_servers_are_shown_one_after_the_other() -> None:
    """Fields of one form are never shown between those of another."""
    dialogs, person = asked("y", "Anna", "", "y", "n")

    first, second = await asyncio.gather(
        dialogs.fill_form(form(name=NAME, age=AGE)), dialogs.fill_form(form("Else?"))
    )

    assert (first.action, second.action) == ("accept", "decline")
    assert person.seen.index("  │ Else?") > person.seen.index("docs: send? (y/n/number) y")


async def test_cancelled_dialog_makes_way_for_the_next() -> None:
    """The call was stopped, or the connection broke, while the form was open."""
    dialogs, person = asked("y")
    reading = asyncio.Event()

    async def choose_key(message: str, keys: Sequence[str], *, at_once: bool = False) -> str:
        reading.set()
        await asyncio.Event().wait()
        return ""

    person.choose_key, answering = choose_key, person.choose_key  # type: ignore[method-assign]
    first = asyncio.ensure_future(dialogs.fill_form(form("One?")))
    second = asyncio.ensure_future(dialogs.fill_form(form("Two?")))
    await reading.wait()
    person.choose_key = answering  # type: ignore[method-assign]
    first.cancel()

    assert await second == Filled("accept")
    assert "docs no longer waits for an answer" in person.seen


def test_server_change_is_reported_to_the_screen() -> None:
    """The status line shows how many servers are up."""
    person, changes = Person([]), list[int]()
    dialogs = ServerQuestions(
        person, parts_of(person), publish=person.hear, on_change=lambda: changes.append(1)
    )

    dialogs.servers_changed()

    assert (changes, person.seen) == ([1], [])
