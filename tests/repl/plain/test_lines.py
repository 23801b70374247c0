"""The line prompt of a terminal without cursor control: questions during a waiting prompt."""

import asyncio
import os
import pty
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import StringIO

import pytest

from agent_cli.repl.plain import lines
from agent_cli.repl.plain.lines import PlainPrompt


@dataclass
class Typist:
    """A terminal with scripted input, and its output."""

    prompt: PlainPrompt
    shown: StringIO
    fd: int

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    async def until(self, shown: str) -> None:
        async with asyncio.timeout(30):
            while shown not in self.shown.getvalue():  # noqa: ASYNC110 - a thread writes it
                await asyncio.sleep(0.001)


@asynccontextmanager
async def typist(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Typist]:
    monkeypatch.setattr(lines, "UNREAD_S", 0.0)
    ours, theirs = pty.openpty()
    shown = StringIO()
    with os.fdopen(theirs) as source:
        yield Typist(PlainPrompt(source, shown), shown, ours)
        os.close(ours)  # ends the reading thread, which holds the other side


async def answer(asking: Coroutine[None, None, str]) -> str:
    """Return the answer; an interrupt that left its task would end the event loop."""
    try:
        return await asking
    except (KeyboardInterrupt, EOFError) as error:
        return type(error).__name__


async def test_line_typed_before_the_prompt_is_repeated_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its echo is in the middle of an answer; the next answer belongs to it."""
    async with typist(monkeypatch) as it:
        it.prompt.wake("early\x07")
        assert await it.prompt.read("you> ") == "early\x07"
        reading = asyncio.ensure_future(it.prompt.read("you> "))
        await it.until("early\nyou> ")
        it.type("later\n")
        await reading

    assert it.shown.getvalue() == "you> early\nyou> "


async def test_question_takes_precedence_over_the_waiting_prompt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If a server asks at the idle prompt, the next line is the answer, not a prompt."""
    async with typist(monkeypatch) as it:
        reading = asyncio.ensure_future(it.prompt.read("you> "))
        first = asyncio.ensure_future(it.prompt.choose("one? ", "yn"))
        second = asyncio.ensure_future(it.prompt.choose("two? ", "yn"))
        await it.until("one? ")
        it.type("y\n")
        assert await first == "y"
        await it.until("two? ")
        it.type("n\n")
        assert await second == "n"
        it.type("hello\n")

        assert await reading == "hello"
        assert it.shown.getvalue() == "you> \none? you> \ntwo? you> "


async def test_ctrl_c_ends_only_the_question_and_end_of_input_ends_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A question asked after the end gets no answer."""
    async with typist(monkeypatch) as it:
        reading = asyncio.ensure_future(answer(it.prompt.read("you> ")))
        asking = asyncio.ensure_future(answer(it.prompt.choose("one? ", "yn")))
        await it.until("one? ")
        it.prompt.stop(KeyboardInterrupt)
        assert await asking == "KeyboardInterrupt"
        it.prompt.stop(EOFError)

        assert await reading == "EOFError"
        assert await answer(it.prompt.choose("two? ", "yn")) == "EOFError"
