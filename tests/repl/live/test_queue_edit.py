"""Queued messages, walked with the arrow keys and edited where they stand."""

import asyncio
from pathlib import Path

import pytest

from agent_cli.repl.dialogue import Choice
from agent_cli.repl.live.asking import SILENCE_S
from agent_cli.repl.live.queue_edit import Queued
from tests.repl.live.test_controller import session
from tests.repl.live.test_screen import CTRL_C, ESCAPE, UP, Live, live

CTRL_UP = "\x1b[1;5A"  # as the keyboard reads Alt-Up of most terminals
DOWN, ALT_UP, ALT_DOWN, CLEAR, CTRL_D = "\x1b[B", "\x1b\x1b[A", "\x1b\x1b[B", "\x15", "\x04"


def queued(it: Live) -> list[str]:
    return [message.text for message in it.person.queued]


async def with_messages(it: Live, *texts: str) -> None:
    it.person.queued = [Queued(text) for text in texts]
    it.person.is_busy = True
    it.screen.refresh()
    await it.until(lambda: len(it.rows) > len(texts))


async def test_arrows_walk_the_queued_messages_and_enter_keeps_an_edited_one(
    tmp_path: Path,
) -> None:
    """The edited one is marked where it stands; the draft returns afterwards."""
    async with live(tmp_path) as it:
        await with_messages(it, "one", "two", "three")
        it.type(UP)
        await it.until(lambda: it.rows[-1] == "you> three")
        it.type(f"{UP}, or 2")
        await it.until(lambda: it.rows[-1] == "you> two, or 2")
        assert it.rows[:3] == ["  when done: one", "❯ when done: two, or 2", "  when done: three"]
        it.type(f"{UP}{CLEAR}1{DOWN}{DOWN}!\rdraft")
        await it.until(lambda: it.rows[-1] == "you> draft")
        assert queued(it) == ["1", "two, or 2", "three!"]
        assert not any(message.is_held for message in it.person.queued)
        await it.press(ALT_UP)
        await it.until(lambda: it.rows[-1] == "you> three!")
        await it.press(DOWN)
        await it.until(lambda: it.rows[-1] == "you> draft")
        assert not it.person.got


async def test_queue_names_no_key_while_a_question_takes_the_arrows(tmp_path: Path) -> None:
    """Arrow-up moves the mark of the list."""
    async with live(tmp_path) as it:
        await with_messages(it, "one")
        await it.until(lambda: it.rows[0] == "  when done: one · ↑ edits")
        choices = [Choice("Yes", ("y",)), Choice("No", ("n",))]
        asked = asyncio.ensure_future(it.screen.asking.select("allow? ", choices, text="decline"))
        await it.until(lambda: it.rows[:2] == ["  when done: one", "allow?"])
        it.now_s += SILENCE_S + 0.01
        it.type("n\r")

        assert await asked == choices[1]


async def test_edited_message_keeps_the_indentation_of_its_first_line(tmp_path: Path) -> None:
    """As it was sent."""
    async with live(tmp_path) as it:
        await with_messages(it, "    if a:\n        b")
        await it.press(ALT_UP)
        it.type(" c\r")
        await it.until(lambda: queued(it) == ["    if a:\n        b c"])


@pytest.mark.parametrize("undo", [ESCAPE, CTRL_C])
async def test_escape_leaves_a_queued_message_as_it_was_and_stops_nothing(
    tmp_path: Path, undo: str
) -> None:
    """It ends the edit, not the run."""
    async with live(tmp_path) as it:
        await with_messages(it, "one", "two")
        await it.press(UP)
        it.type("!!")
        await it.until(lambda: it.rows[-1] == "you> two!!")
        await it.press(undo)
        await it.until(lambda: it.rows[-1] == "you>")

        assert queued(it) == ["one", "two"]
        assert not it.person.interrupted


@pytest.mark.parametrize("key", [ESCAPE, CTRL_D])
async def test_key_right_after_a_drop_neither_stops_the_run_nor_leaves(
    tmp_path: Path, key: str
) -> None:
    """It was meant for the message that was gone already."""
    async with live(tmp_path) as it:
        await with_messages(it, "one")
        it.type(UP)
        await it.until(lambda: it.rows[-1] == "you> one")
        await it.press(CTRL_D)
        await it.press(key)

        assert it.screen.app.is_running
        assert (queued(it), it.person.interrupted) == ([], 0)
        it.now_s += 1
        it.type(ESCAPE)
        await it.until(lambda: it.person.interrupted == 1)


@pytest.mark.parametrize("move", [ALT_UP, CTRL_UP])
async def test_a_queued_message_is_moved_and_dropped(tmp_path: Path, move: str) -> None:
    """Alt with an arrow, or Ctrl, moves it; Ctrl-D, or Enter on nothing, drops it."""
    async with live(tmp_path) as it:
        await with_messages(it, "one", "two", "three")
        await it.press(UP)
        await it.press(move)
        await it.press(move)
        await it.until(lambda: it.rows[0] == "❯ when done: three")
        await it.press("\r")
        await it.until(lambda: queued(it) == ["three", "one", "two"])
        await it.press(UP)
        await it.press(CTRL_D)
        await it.until(lambda: queued(it) == ["three", "one"])
        it.type(f"{UP}{CLEAR}\r")
        await it.until(lambda: queued(it) == ["three"])


async def test_a_message_on_its_way_to_the_model_is_passed_over(tmp_path: Path) -> None:
    """And a command that failed stays in the input, before the draft."""
    async with live(tmp_path) as it:
        await with_messages(it, "one", "taken")
        it.type(UP)
        await it.until(lambda: it.rows[-1] == "you> one")
        it.type(f"{CLEAR}/refused")
        it.screen.put_back("given back")
        await it.press("\r")
        await it.until(lambda: it.screen.buffer.text == "/refused\ngiven back")
        assert not it.screen.queue.is_active


async def test_a_run_that_ends_meanwhile_leaves_an_edited_message_where_it_is(
    tmp_path: Path,
) -> None:
    """It used to be taken out of the queue, so that those behind it were sent first."""
    async with session(tmp_path) as it:
        it.type("gated 1\r")
        await it.until(lambda: "piece 0" in it.rows)
        it.type("first\rsecond\r")
        await it.until(lambda: "  after this step: second · ↑ edits" in it.rows)
        it.type(f"{UP}{UP}, edited")
        await it.until(lambda: "❯ after this step: first, edited" in it.rows)
        Path("gate-0").touch()
        await it.until(lambda: not it.screen.listener.is_busy)
        assert it.rows[-2:-1] == ["you> first, edited"]
        assert not Path("prompts.jsonl").read_text().count("second")
        it.type("\r")
        await it.until(lambda: "You said 'second' to model-1." in it.rows)

        said = [row for row in it.rows if row.startswith("You said")]
        assert said == ["You said 'first, edited' to model-1.", "You said 'second' to model-1."]


async def test_a_command_waits_for_the_edited_message_before_it(tmp_path: Path) -> None:
    """`/clear` went first, and the message to a conversation that did not know what it is about."""
    async with session(tmp_path) as it:
        it.type("gated 1\r")
        await it.until(lambda: "piece 0" in it.rows)
        it.type("first\r/clear\r")
        await it.until(lambda: "  when done: /clear · ↑ edits" in it.rows)
        it.type(f"{UP}{UP}, edited")
        await it.until(lambda: "❯ after this step: first, edited" in it.rows)
        Path("gate-0").touch()
        await it.until(lambda: not it.screen.listener.is_busy)
        it.type("\r")
        await it.until(lambda: "new conversation; 1 job goes on: /jobs" in it.rows)

        rows = (
            "You said 'first, edited' to model-1.",
            "you> /clear",
            "new conversation; 1 job goes on: /jobs",
        )
        assert [row for row in it.rows if row in rows] == [*rows]


async def test_a_stop_returns_an_edited_message_with_the_others(tmp_path: Path) -> None:
    """In their order, each once."""
    async with session(tmp_path) as it:
        it.type("gated 1\r")
        await it.until(lambda: "piece 0" in it.rows)
        it.type("first\rsecond\r")
        await it.until(lambda: "  after this step: second · ↑ edits" in it.rows)
        it.type(f"{UP}{UP}, edited")
        await it.until(lambda: "❯ after this step: first, edited" in it.rows)
        it.screen.listener.interrupt()
        await it.until(lambda: it.screen.buffer.text == "first, edited\n\nsecond")
        Path("gate-0").touch()  # a thread of the scripted model waits for it
