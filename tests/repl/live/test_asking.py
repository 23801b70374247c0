"""Consecutive questions on a screen."""

import asyncio
import os
import tty
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import pytest
from prompt_toolkit.input import PipeInput

from agent_cli.repl.dialogue import ENTER, Choice
from agent_cli.repl.live.asking import SILENCE_S
from agent_cli.repl.live.digits import READ_S
from agent_cli.repl.live.input.keyboard import GroundAnswer, Keyboard
from tests.repl.live.test_screen import CTRL_C, ESCAPE, UP, Live, live
from tests.tables import each_row


async def opened(it: Live, row: str) -> None:
    """Wait until an unanswered question is on the screen and accepts keys."""
    await it.until(lambda: it.rows[-1] == row)
    it.now_s += SILENCE_S + 0.01


async def answer(asking: Coroutine[None, None, Choice | str]) -> Choice | str:
    """Return the answer; an interrupt that left its task would end the event loop."""
    try:
        return await asking
    except KeyboardInterrupt:
        return "interrupted"


async def test_follow_up_question_opens_at_once_but_ignores_keys_typed_ahead(
    tmp_path: Path,
) -> None:
    """Keys typed ahead become its text, but do not answer it; the draft returns."""
    async with live(tmp_path) as it:
        it.type("draft")
        await it.until(lambda: it.rows == ["you> draft"])
        first = await it.asked("name? ", "")
        it.type("Anna\r")
        assert await first == "Anna"

        second = asyncio.ensure_future(it.screen.asking.choose_next("sure? ", "yn"))
        await it.until(lambda: it.rows[-1] == "sure?")
        it.type("y\r")
        await it.until(lambda: it.rows[-1] == "sure? y")
        assert not second.done()
        it.now_s += SILENCE_S + 0.01
        it.type("\x7fn\r")

        assert await second == "n"
        await it.until(lambda: it.rows == ["name? Anna", "sure? n", "you> draft"])


async def test_list_says_that_a_message_waits_only_as_long_as_it_does(tmp_path: Path) -> None:
    """That of an agent in the background stays open while the session goes on with the message."""
    async with live(tmp_path) as it:
        unsent = ["later"]
        it.screen.asking.has_unsent = lambda: bool(unsent)
        asking = it.screen.asking.select("allow? ", [Choice("Yes", ("y",))], text="decline")
        answered = asyncio.ensure_future(asking)
        await it.until(lambda: "your message goes out" in "".join(it.rows))
        unsent.clear()
        it.screen.refresh()
        await it.until(lambda: "your message goes out" not in "".join(it.rows))
        it.now_s += SILENCE_S + 0.01
        it.type("\r")
        it.screen.refresh()
        assert it.rows[-2] == "  choose with ↓, or type anything else"
        it.type("y\r")

        assert await answered == Choice("Yes", ("y",))


async def test_key_pressed_too_early_shows_a_note_until_the_next_key(tmp_path: Path) -> None:
    """The key used to look dead; keys typed before the question was visible do not count."""
    async with live(tmp_path) as it:
        it.type("draft")
        await it.until(lambda: it.rows == ["you> draft"])
        first = await it.asked("one? ", "y")
        it.type("y\r")
        assert await first == "y"
        second = asyncio.ensure_future(it.screen.asking.choose("two? ", "y"))
        await it.until(lambda: it.screen.asking.question is not None)
        await it.until(lambda: it.rows == ["one? y", "you> draft"])
        it.type("y")
        await it.until(lambda: it.rows == ["one? y", "you> drafty"])
        it.now_s += SILENCE_S + 0.01
        await it.until(lambda: it.rows == ["one? y", "two? too early: try again"])
        it.type("x")
        await it.until(lambda: it.rows == ["one? y", "two? x"])
        it.type("\x7f")
        await it.until(lambda: it.rows == ["one? y", "two?"])
        it.type("y\r")

        assert await second == "y"
        await it.until(lambda: it.rows == ["one? y", "two? y", "you> drafty"])


async def test_empty_line_answers_only_a_question_with_a_default(
    tmp_path: Path,
) -> None:
    """Enter takes a default; elsewhere it is an accident."""
    async with live(tmp_path) as it:
        first = asyncio.ensure_future(it.screen.asking.choose_next("name? ", "yn"))
        await opened(it, "name?")
        it.type("\ry\r")
        assert await first == "y"
        second = asyncio.ensure_future(it.screen.asking.choose_next("name [Anna]? ", ENTER))
        await opened(it, "name [Anna]?")
        it.type("\r")

        assert await second == ""


async def test_questions_are_asked_one_at_a_time_and_escape_ends_only_the_current_one(
    tmp_path: Path,
) -> None:
    """A server may ask during an approval; Esc works even if nothing else runs."""
    async with live(tmp_path) as it:
        first = asyncio.ensure_future(answer(it.screen.asking.choose_next("one? ", "y")))
        second = asyncio.ensure_future(it.screen.asking.choose_next("two? ", "y"))
        await opened(it, "one?")
        it.type("\x1b")
        assert await first == "interrupted"
        await opened(it, "two?")
        it.type("y\r")

        assert await second == "y"


async def test_answer_to_a_question_is_not_kept_in_the_history(tmp_path: Path) -> None:
    """A form may ask for secrets."""
    async with live(tmp_path) as it:
        asking = asyncio.ensure_future(it.screen.asking.choose_next("code? ", ""))
        await opened(it, "code?")
        it.type("secret\r")
        assert await asking == "secret"
        it.type("a prompt\r")
        await it.until(lambda: len(it.person.got) == 1)

        assert "secret" not in (tmp_path / "history").read_text()


async def test_text_typed_at_a_question_for_a_single_key_is_kept_for_the_prompt(
    tmp_path: Path,
) -> None:
    """`you could ...`, typed too late to be set aside, is not a yes."""
    async with live(tmp_path) as it:
        asking = asyncio.ensure_future(it.screen.asking.choose_key("allow? ", "yn", at_once=True))
        await opened(it, "allow?")
        it.type("xyou could\r")
        kept = "kept for your next message"
        await it.until(lambda: it.rows == [f"allow? {kept}"])
        assert not asking.done()
        it.type("n\r")

        assert await asking == "n"
        await it.until(lambda: it.rows == ["allow? n", "you> xyou could"])


async def test_command_typed_at_a_question_for_a_single_key_runs_at_once(tmp_path: Path) -> None:
    """It came back with the prompt, as the first line of a message."""
    async with live(tmp_path) as it:
        asking = asyncio.ensure_future(it.screen.asking.choose_key("allow? ", "yn", at_once=True))
        await opened(it, "allow?")
        it.type("/help\r")
        await it.until(lambda: it.person.got == [("/help", False)])
        assert it.rows == ["allow?"]
        it.now_s += 9
        it.type("y\r")

        assert await asking == "y"
        await it.until(lambda: it.rows == ["allow? y", "you>"])


async def test_sentences_kept_at_a_question_stay_in_the_order_in_which_they_were_typed(
    tmp_path: Path,
) -> None:
    """The last one stood first, and the one begun before the question last."""
    async with live(tmp_path) as it:
        it.type("first")
        await it.until(lambda: it.rows == ["you> first"])
        asking = asyncio.ensure_future(it.screen.asking.choose_key("allow? ", "yn", at_once=True))
        await opened(it, "allow?")
        for sentence in ("second one", "third one"):
            it.type(f"{sentence}\r")
            await it.until(lambda: it.rows == ["allow? kept for your next message"])
            it.type("x\x7f")
            await it.until(lambda: it.rows == ["allow?"])
        it.now_s += 9
        assert it.screen.asking.unsent("n") == "first\nsecond one\nthird one"
        it.type("n\r")

        assert await asking == "n"
        await it.until(lambda: it.screen.draft.text == "first\nsecond one\nthird one")


async def test_slip_at_a_question_for_a_single_key_is_no_message(tmp_path: Path) -> None:
    """Other questions take a number: "1" was kept, and the next one offered to send it."""
    async with live(tmp_path) as it:
        asking = asyncio.ensure_future(it.screen.asking.choose_key("allow? ", "yn", at_once=True))
        await opened(it, "allow?")
        it.type("1\r")
        await it.until(lambda: it.rows == ["allow? answer y or n"])
        it.type("1")
        await it.until(lambda: it.rows == ["allow? 1"])
        assert it.screen.asking.unsent("1") == ""
        it.type("\x7fn\r")

        assert await asking == "n"
        await it.until(lambda: it.rows == ["allow? n", "you>"])


async def test_half_typed_answer_to_a_cancelled_question_is_not_left_in_the_prompt(
    tmp_path: Path,
) -> None:
    """It may be a password, and the next Enter used to send it to the model.

    The server died, or its call was stopped; the next question may be asked.
    """
    async with live(tmp_path) as it:
        it.type("draft")
        await it.until(lambda: it.rows == ["you> draft"])
        asking = asyncio.ensure_future(it.screen.asking.choose_next("one? ", "y"))
        await it.until(lambda: it.rows == ["one?"])
        it.type("answ")
        await it.until(lambda: it.rows == ["one? answ"])
        asking.cancel()
        await it.until(lambda: it.rows == ["you> draft"])
        it.type("\x1f\x1b[A\x1b[B")  # undo, Up and Down do not bring it back either
        it.type("s")
        await it.until(lambda: it.rows == ["you> drafts"])
        second = asyncio.ensure_future(it.screen.asking.choose_next("two? ", "y"))
        await opened(it, "two?")
        it.type("y\r")

        assert await second == "y"


async def test_line_typed_right_after_a_list_was_ended_stays_in_the_input(tmp_path: Path) -> None:
    """Ctrl-C, the next message and Enter came at once: it was taken as an answer, and lost."""
    async with live(tmp_path) as it:
        choices = [Choice("Yes", ("y",)), Choice("No", ("n",))]
        asking = it.screen.asking.select("allow? ", choices, text="declines")
        ended = asyncio.ensure_future(answer(asking))
        await it.until(lambda: "allow?" in it.rows)
        it.type("\x03use tabs\r")

        assert await ended == "interrupted"
        await it.until(lambda: it.rows == ["you> use tabs"])


async def test_half_typed_answer_is_not_kept_in_the_history_when_the_session_ends(
    tmp_path: Path,
) -> None:
    """Not even if the user looked at the history in between; the draft is kept."""
    async with live(tmp_path) as it:
        it.type("earlier\r")
        await it.until(lambda: len(it.person.got) == 1)
        it.type("draft")
        await it.until(lambda: it.rows[-1] == "you> draft")
        asking = asyncio.ensure_future(it.screen.asking.choose_next("code? ", ""))
        await it.until(lambda: it.rows[-1] == "code?")
        it.type("secret")
        await it.until(lambda: it.rows[-1] == "code? secret")
        it.type("\x1b[A")
        await it.until(lambda: it.rows[-1] != "code? secret")
    await asyncio.wait([asking])
    assert isinstance(asking.exception(), EOFError)

    kept = (tmp_path / "history").read_text()
    assert "draft" in kept
    assert "secret" not in kept


async def test_space_takes_the_marked_checkbox_and_is_text_before_one_is_marked(
    tmp_path: Path,
) -> None:
    """A key typed ahead checks nothing."""
    boxes = [Choice(f"[ ] {n}", (str(n),), is_checkbox=True) for n in (1, 2)]
    async with live(tmp_path) as it:
        asking = it.screen.asking
        asked = asyncio.ensure_future(asking.select("which?", boxes, text="answer"))
        await it.until(lambda: asking.choices is not None)
        before = asking.checkbox
        it.now_s += SILENCE_S + 0.01
        await it.until(lambda: asking.checkbox is boxes[0])
        it.type(" ")

        assert before is None
        assert await asked is boxes[0]


async def asked_with_digits(it: Live, *more: Choice) -> "asyncio.Future[Choice | str]":
    """Ask with two numbered answers, and wait until they can be taken."""
    listed = [Choice("Yes", ("y",)).numbered(1), Choice("No", ("n",)).numbered(2), *more]
    asking = it.screen.asking.select("allow? ", listed, text="decline")
    asked = asyncio.ensure_future(answer(asking))
    await it.until(lambda: "allow?" in it.rows)
    it.now_s += SILENCE_S + 0.01
    await it.until(lambda: "❯ 1 Yes" in it.rows)
    return asked


async def nothing_taken(it: Live, asked: "asyncio.Future[Choice | str]") -> None:
    """Wait for longer than a digit does."""
    it.now_s += SILENCE_S + 0.01
    await asyncio.wait([asked], timeout=2 * SILENCE_S)
    assert not asked.done()


async def test_digit_answers_a_list_without_enter(tmp_path: Path) -> None:
    """Claude Code and Codex take it at once; here it only moved the mark."""
    async with live(tmp_path) as it:
        asked = await asked_with_digits(it)
        it.now_s += READ_S
        it.type("2")
        await it.until(lambda: "❯ 2 No" in it.rows)
        it.now_s += SILENCE_S

        taken = await asked
        assert isinstance(taken, Choice)
        assert taken.label == "No"
        await it.until(lambda: it.rows == ["allow? No", "you>"])


async def test_digit_that_begins_a_sentence_or_a_longer_number_answers_nothing(
    tmp_path: Path,
) -> None:
    """A comment such as "2 is wrong" is text for the model."""
    async with live(tmp_path) as it:
        asked = await asked_with_digits(it)
        it.type("2")
        it.type(" is wrong")
        await it.until(lambda: "allow? 2 is wrong" in it.rows)
        await nothing_taken(it, asked)
        it.type("\r")
        assert await asked == "2 is wrong"

        asked = await asked_with_digits(it, Choice("Tenth", ("10",), key="10"))
        it.type("1")
        await it.until(lambda: "allow? 1" in it.rows)
        await nothing_taken(it, asked)
        it.type("0\r")
        taken = await asked
        assert isinstance(taken, Choice)
        assert taken.label == "Tenth"


@each_row("typed", ["before", "too early", "behind a message"])
async def test_digit_that_was_meant_for_something_else_waits_for_enter(
    typed: str, tmp_path: Path
) -> None:
    """A list that opens while somebody types takes nothing by itself."""
    listed = [Choice("Yes", ("y",)).numbered(1), Choice("No", ("n",)).numbered(2)]
    async with live(tmp_path) as it:
        it.screen.asking.has_unsent = lambda: typed == "behind a message"
        if typed == "before":
            it.type("1")
            await it.until(lambda: it.rows == ["you> 1"])
        asking = it.screen.asking.select("allow? ", listed, text="decline")
        asked = asyncio.ensure_future(answer(asking))
        await it.until(lambda: it.rows[0].startswith("allow?"))
        it.now_s += 9 if typed == "behind a message" else 0
        if typed != "before":
            it.type("1")
        await it.until(lambda: it.rows[0].startswith("allow? 1"))
        await nothing_taken(it, asked)

        it.type(CTRL_C)
        assert await asked == "interrupted"


async def edited_text(it: Live) -> None:
    """Leave a digit in the input that is the rest of a deleted text."""
    it.type("1x")
    await it.until(lambda: "allow? 1x" in it.rows)
    it.type("\x7f")


async def marked_with_an_arrow(it: Live) -> None:
    """Type the digit of "no", and move the mark to "yes"."""
    it.type("2")
    await it.until(lambda: "❯ 2 No" in it.rows)
    it.type(UP)
    await it.until(lambda: "❯ 1 Yes" in it.rows)


async def pasted_digit(it: Live) -> None:
    """Paste a text that is one digit."""
    it.type("\x1b[200~1\x1b[201~")


@each_row("act", [edited_text, marked_with_an_arrow, pasted_digit])
async def test_only_the_key_of_a_digit_answers_without_enter(
    act: Callable[[Live], Awaitable[None]], tmp_path: Path
) -> None:
    """An arrow behind "2" approved what it marked, and so did what was left of a deleted text."""
    async with live(tmp_path) as it:
        asked = await asked_with_digits(it)
        it.now_s += READ_S
        await act(it)
        await it.until(lambda: bool(it.screen.draft.text))
        await nothing_taken(it, asked)

        it.type(CTRL_C)
        assert await asked == "interrupted"


async def test_digit_waits_until_the_list_was_read(tmp_path: Path) -> None:
    """A sentence that begins with one may be typed blind and slowly, or over a slow line."""
    async with live(tmp_path) as it:
        asked = await asked_with_digits(it)
        it.type("1")
        await it.until(lambda: "allow? 1" in it.rows)
        await nothing_taken(it, asked)
        it.type(" more thing")
        await it.until(lambda: "allow? 1 more thing" in it.rows)
        await nothing_taken(it, asked)
        it.type("\r")

        assert await asked == "1 more thing"


async def test_enter_behind_a_digit_does_not_answer_the_next_question(tmp_path: Path) -> None:
    """The digit has answered already, and Enter took the first answer of what came next."""
    async with live(tmp_path) as it:
        asked = await asked_with_digits(it)
        it.now_s += READ_S
        it.type("2")
        await it.until(lambda: "❯ 2 No" in it.rows)
        it.now_s += SILENCE_S
        await asked
        following = await asked_with_digits(it)
        it.type("\r")
        await it.until(lambda: "allow? too early: try again" in it.rows)
        assert not following.done()
        it.type("\r")

        taken = await following
        assert isinstance(taken, Choice)
        assert taken.label == "Yes"


async def asked_in_normal_mode(it: Live) -> "asyncio.Future[Choice | str]":
    """Ask yes (the mark) or no while vi is in normal mode; return the future answer."""
    await it.press(ESCAPE)
    assert it.screen.app.vi_mode == "normal"
    listed = [Choice("Yes", ("y", "1")), Choice("No", ("n", "2"))]
    answer = asyncio.ensure_future(it.screen.asking.select("allow? ", listed, text="decline"))
    await it.until(lambda: "allow?" in it.rows)
    it.now_s += SILENCE_S + 0.01
    await it.until(lambda: "❯ Yes" in it.rows)
    return answer


@pytest.mark.parametrize("typed", ["2", f"{ESCAPE}2", f"no{ESCAPE}0D2"])
async def test_answer_typed_in_vis_normal_mode_is_the_answer(typed: str, tmp_path: Path) -> None:
    """A digit is a count there, so that Enter took the marked answer: yes."""
    async with live(tmp_path, vi=True) as it:
        answer = await asked_in_normal_mode(it)
        for key in typed:
            await it.press(key)
        assert it.screen.buffer.text == "2"
        it.type("\r")
        taken = await answer

    assert isinstance(taken, Choice)
    assert taken.label == "No"


async def asked_behind_a_message(it: Live) -> "asyncio.Future[Choice | str]":
    """Begin a message, ask with a list, and wait until it offers to send the message first."""
    it.type("y")
    await it.until(lambda: it.rows == ["you> y"])
    yes = Choice("Yes", ("y",), key="1")
    asked = asyncio.ensure_future(it.screen.asking.select("allow? ", [yes], text="decline"))
    await it.until(lambda: "allow? y" in it.rows)
    await offered_to_send(it)
    return asked


async def offered_to_send(it: Live) -> None:
    it.now_s += SILENCE_S + 0.01
    await it.until(lambda: any(row.startswith("❯ Send your message") for row in it.rows))


async def test_message_begun_before_a_list_is_sent_and_answers_nothing(tmp_path: Path) -> None:
    """Enter declined the call with it, and told the model so; a second Enter is no answer."""
    async with live(tmp_path) as it:
        asked = await asked_behind_a_message(it)
        it.type("ou may\r")
        await it.until(lambda: it.person.got == [("you may", False)])
        await it.until(lambda: "allow?" in it.rows)
        assert it.screen.asking.answer_of("") is None
        it.type("no, wait\r")

        assert await asked == "no, wait"


async def test_message_begun_before_a_list_and_deleted_leaves_the_list_as_if_none_had_been(
    tmp_path: Path,
) -> None:
    """It counted as sent: no answer was marked any more. Enter at once still answers nothing."""
    async with live(tmp_path) as it:
        asked = await asked_behind_a_message(it)
        it.type("\x7f\r")
        await it.until(lambda: "allow? too early: try again" in it.rows)
        assert not asked.done()
        it.now_s += SILENCE_S + 0.01
        await it.until(lambda: "❯ 1 Yes" in it.rows)
        it.type("\r")

        assert isinstance(await asked, Choice)


async def test_hint_that_an_answer_came_too_early_stands_apart_from_it(tmp_path: Path) -> None:
    """It read `allow? ytoo early`."""
    async with live(tmp_path) as it:
        listed = it.screen.asking.select("allow? ", [Choice("Yes", ("y",))], text="decline")
        asked = asyncio.ensure_future(listed)
        await it.until(lambda: "allow?" in it.rows)
        it.type("y\r")
        await it.until(lambda: "allow? y  too early: try again" in it.rows)
        it.now_s += SILENCE_S + 0.01
        it.type("\r")

        assert isinstance(await asked, Choice)


async def test_pasted_answer_of_many_lines_is_shown_as_its_ends(tmp_path: Path) -> None:
    """It pushed 5,000 rows into the scrollback; the asker gets all of it."""
    pasted = "\n".join(f"line {number}" for number in range(5_000))
    async with live(tmp_path) as it:
        listed = it.screen.asking.select("allow? ", [Choice("Yes", ("y",))], text="decline")
        asked = asyncio.ensure_future(listed)
        await it.until(lambda: "allow?" in it.rows)
        it.type(f"\x1b[200~{pasted}\x1b[201~")
        await it.until(lambda: "allow? [paste #1: 5,000 lines]" in it.rows)
        it.type("\r")
        assert await asked == pasted
        await it.until(lambda: it.rows[-1] == "you>")

        assert it.rows[:-1] == [
            "allow? line 0",
            *(f"  line {number}" for number in range(1, 6)),
            "  … 4,989 more rows",
            *(f"  line {number}" for number in range(4_995, 5_000)),
        ]


async def test_answer_picked_by_arrow_leaves_the_message_begun_before_in_the_input(
    tmp_path: Path,
) -> None:
    """So does a checkbox, whose mark is there when the list is shown again."""
    boxes = [Choice(f"[ ] {n}", (str(n),), is_checkbox=True) for n in (1, 2)]
    choices = [*boxes, Choice("Done", ("done",), is_default=True)]
    async with live(tmp_path) as it:
        asking = it.screen.asking
        it.type("draft")
        await it.until(lambda: it.rows == ["you> draft"])
        asked = asyncio.ensure_future(asking.select("which? ", choices, text="answer"))
        await it.until(lambda: "which? draft" in it.rows)
        it.now_s += SILENCE_S + 0.01
        it.type(f"{UP}{UP}\r")

        assert await asked == boxes[1]
        await it.until(lambda: it.rows[-1] == "you> draft")


@each_row("typed", ["y", "7"])
async def test_typed_answer_is_gone_once_another_one_was_picked_by_arrow(
    typed: str, tmp_path: Path
) -> None:
    """It stayed in the input, where the next question took it for a message to the model."""
    choices = [Choice("Yes", ("y",), key="y"), Choice("One by one", ("a",), key="a")]
    async with live(tmp_path) as it:
        asking = it.screen.asking
        asked = asyncio.ensure_future(asking.select("all? ", choices, text="decline"))
        await it.until(lambda: "all?" in it.rows)
        it.now_s += SILENCE_S + 0.01
        it.type(f"{typed}{ESCAPE}[B\r")

        assert await asked in choices
        await it.until(lambda: it.rows[-1] == "you>")


@each_row("typed", ["y", "7", "no, because", "/btw why"])
async def test_short_answer_is_gone_once_its_question_was_stopped(
    typed: str, tmp_path: Path
) -> None:
    """It was in the input, and the next question took it for a message; a sentence is kept."""
    async with live(tmp_path) as it:
        asking = it.screen.asking.select("allow? ", [Choice("Yes", ("y",))], text="decline")
        asked = asyncio.ensure_future(answer(asking))
        await it.until(lambda: "allow?" in it.rows)
        it.now_s += SILENCE_S + 0.01
        it.type(typed)
        await it.until(lambda: f"allow? {typed}" in it.rows)
        it.type(CTRL_C)

        assert await asked == "interrupted"
        left = f"you> {typed}" if " " in typed else "you>"
        await it.until(lambda: it.rows[-1] == left)


async def shown_anew_behind(it: Live, typed: str) -> "asyncio.Future[Choice | str]":
    """Type at a question that is closed then and shown anew; return the answer to come."""
    asking, choices = it.screen.asking, [Choice("Yes", ("y",)), Choice("No", ("n",))]
    first = asyncio.ensure_future(asking.select("allow? ", choices, text="decline"))
    await it.until(lambda: "allow?" in it.rows)
    it.type(typed)
    await it.until(lambda: f"allow? {typed}" in it.rows)
    first.cancel()
    await asyncio.wait([first])
    asked = asyncio.ensure_future(asking.select("allow? ", choices, text="decline", anew=True))

    def takes_enter() -> bool:
        it.now_s += SILENCE_S
        return bool(asking.question and asking.question.is_ripe)

    await it.until(takes_enter)
    return asked


async def test_reason_begun_at_a_question_that_is_shown_anew_is_no_message(tmp_path: Path) -> None:
    """It went to the model behind the answer."""
    async with live(tmp_path) as it:
        asked = await shown_anew_behind(it, "no, bec")

        it.type("ause\r")

        assert await asked == "no, because"
        assert it.person.got == []


@each_row("typed", ["n", "y", "2"])
async def test_short_answer_to_a_question_that_is_shown_anew_is_gone_and_enter_gives_none(
    typed: str, tmp_path: Path
) -> None:
    """Enter behind a `no` that was gone by then took the first answer, which allows."""
    async with live(tmp_path) as it:
        asked = await shown_anew_behind(it, typed)

        it.type("\r")
        it.type("\x1b[B")
        await it.until(lambda: "❯ Yes" in it.rows)

        assert not asked.done()
        it.type("\r")
        assert await asked == Choice("Yes", ("y",))
        assert it.person.got == []


async def test_message_begun_before_a_question_stays_one_when_it_is_shown_anew(
    tmp_path: Path,
) -> None:
    """Enter would have declined the call with it."""
    async with live(tmp_path) as it:
        first = await asked_behind_a_message(it)
        first.cancel()
        await asyncio.wait([first])
        again = it.screen.asking.select("allow? ", [Choice("Yes", ("y",))], text="no", anew=True)
        asked = asyncio.ensure_future(again)
        it.type("ou may\r")
        await it.until(lambda: it.person.got == [("you may", False)])

        assert not asked.done()
        asked.cancel()


async def test_search_begun_before_a_list_finds_a_message_that_answers_nothing(
    tmp_path: Path,
) -> None:
    """Enter, and the Enter that was to send it, declined the call with the message as reason."""
    async with live(tmp_path) as it:
        it.type("an earlier prompt\r")
        await it.until(lambda: it.rows == ["you>"])
        it.type("\x12earl")
        await it.until(lambda: it.rows[-1] == "history: earl")
        asking = it.screen.asking.select("allow? ", [Choice("Yes", ("y",))], text="decline")
        answered = asyncio.ensure_future(asking)
        await it.until(lambda: "allow? an earlier prompt" in it.rows)
        await it.press("\r")
        await offered_to_send(it)
        it.type("\r")
        await it.until(lambda: len(it.person.got) == 2)

        assert it.person.got[-1] == ("an earlier prompt", False)
        it.type("no, wait\r")
        assert await answered == "no, wait"


async def test_text_of_an_editor_opened_before_a_list_is_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was written for the prompt, before anyone could see the question."""
    opened, closing = tmp_path / "opened", tmp_path / "closing"
    os.mkfifo(closing)
    monkeypatch.setenv("VISUAL", f"sh -c 'touch {opened}; cat {closing} > \"$0\"'")
    async with live(tmp_path) as it:
        it.type("\x07")
        await it.until(opened.exists)
        asking = it.screen.asking.select("allow? ", [Choice("Yes", ("y",))], text="decline")
        answered = asyncio.ensure_future(asking)
        await it.until(lambda: it.screen.asking.question is not None)
        closing.write_text("written")
        await it.until(lambda: "allow? written" in it.rows)
        await offered_to_send(it)
        it.type("\r")
        await it.until(lambda: bool(it.person.got))

        assert it.person.got == [("written", False)]
        it.type("no, wait\r")
        assert await answered == "no, wait"


class PtyKeyboard(Keyboard, PipeInput):
    """Reads a pseudo-terminal as the program does; a a pipe passes parts of a paste on."""

    def __init__(self, stdin: TextIO, master: int) -> None:
        super().__init__(stdin, GroundAnswer())
        self._master = master

    def send_bytes(self, data: bytes) -> None:
        os.write(self._master, data)

    def send_text(self, data: str) -> None:
        self.send_bytes(data.encode())


@contextmanager
def pty_keyboard() -> Generator[PtyKeyboard]:
    master, slave = os.openpty()
    tty.setraw(slave)
    with os.fdopen(slave, encoding="utf-8") as stdin, os.fdopen(master, "wb"):
        yield PtyKeyboard(stdin, master)


async def half_pasted(it: Live, keyboard: PtyKeyboard) -> None:
    """Paste the first half of a message; it is read when this returns."""
    begun = asyncio.Event()
    note, keyboard.on_paste = keyboard.on_paste, begun.set
    it.type("\x1b[200~first ")
    await begun.wait()
    keyboard.on_paste = note
    note()


async def test_paste_begun_before_a_question_answers_nothing(tmp_path: Path) -> None:
    """Over a slow connection it ends after the list has opened, and declined the call."""
    with pty_keyboard() as keyboard:
        async with live(tmp_path, keyboard=keyboard) as it:
            await half_pasted(it, keyboard)
            asking = it.screen.asking.select("allow? ", [Choice("Yes", ("y",))], text="decline")
            answered = asyncio.ensure_future(asking)
            await it.until(lambda: "allow?" in it.rows)
            it.type("half\x1b[201~")
            await it.until(lambda: "allow? first half" in it.rows)
            await offered_to_send(it)
            it.type("\r")
            await it.until(lambda: it.person.got == [("first half", False)])
            it.type("\x1b[200~no, \x1b[201~wait\r")

            assert await answered == "no, wait"


async def test_paste_begun_before_a_line_is_asked_for_is_kept_for_the_prompt(
    tmp_path: Path,
) -> None:
    """It may be long and for the model, and the line a password for a server."""
    with pty_keyboard() as keyboard:
        async with live(tmp_path, keyboard=keyboard) as it:
            await half_pasted(it, keyboard)
            asked = await it.asked("name? ", "")
            it.type("half\x1b[201~")
            await it.until(lambda: it.rows == ["name? kept for your next message"])
            it.type("\x1b[200~Anna\x1b[201~\r")

            assert await asked == "Anna"
            await it.until(lambda: it.rows == ["name? Anna", "you> first half"])
