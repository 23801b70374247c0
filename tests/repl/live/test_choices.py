"""The lists to choose from: rows of answers, and the picker in an emulated terminal."""

import asyncio
from pathlib import Path

import pytest

from agent_cli.repl.dialogue import Choice
from agent_cli.repl.live.choices import AnswerRow, Choices, Picker
from agent_cli.repl.live.paint import row_width
from tests.repl.live.test_screen import Live, live


def test_note_stands_beside_its_answer_or_below_it() -> None:
    """Faint, as everything behind a gap; it is never left out."""
    choices = Choices([Choice("Yes", ("1",), key="1", note="kept in a file")], "decline")

    assert [row.text for row in choices.rows(30, 20)] == [
        "  1 Yes  kept in a file",
        "    type anything else to",
        "    decline · Ctrl-C stops the",
        "    run",
    ]
    assert choices.rows(20, 20)[:2] == [
        AnswerRow(False, "  1 Yes"),
        AnswerRow(False, "", "    kept in a file"),
    ]


def test_hint_stands_below_its_answer_where_there_is_no_room_beside_it() -> None:
    """On a phone nothing else says that a digit opens a call, or that a mode would not ask."""
    news = [""]
    yes = Choice("Yes", ("y",), beside="1–6 opens one", news=lambda: news[0])
    choices = Choices([yes, Choice("Show", ("v",), shortcut="Ctrl-O")], "decline")

    [beside, *_] = choices.rows(30, 20)
    below = choices.rows(16, 20)
    news[0] = "auto-edit would not ask: Enter runs it"

    assert beside.text == f"{'  Yes':17}1–6 opens one"
    assert [row.text for row in below[:2]] == ["  Yes", "  1–6 opens one"]
    assert "Enter" in "".join(row.hint for row in choices.rows(30, 20))


def test_word_wider_than_the_screen_is_wrapped_not_truncated() -> None:
    """A user who agrees to store a rule must have seen the file's full name."""
    path = "~/.config/agent-cli/permissions.toml"
    choices = Choices([Choice("Yes", ("y",), note=f"kept in {path}")], "decline")

    rows = [row.text for row in choices.rows(20, 20)]

    assert path in "".join(row.strip() for row in rows)
    assert all(row_width(row) <= 20 for row in rows)


def test_marked_choice_that_is_too_long_shows_its_beginning() -> None:
    """Its mark and its first words, on a screen with two rows for the list."""
    choices = Choices([Choice("No", ("n",)), Choice("Yes and " * 9, ("y",))], "decline")
    choices.is_marked = True
    choices.move(1)

    assert choices.rows(20, 2) == [
        AnswerRow(True, "❯ Yes and Yes and"),
        AnswerRow(True, "↓ Yes and Yes and"),
    ]


def test_list_that_does_not_fit_has_arrows_towards_its_other_rows() -> None:
    """Otherwise nothing on a low screen says that "No" is among the answers."""
    choices = Choices([Choice(f"answer {n}", (str(n),)) for n in range(6)], "decline")
    choices.is_marked = True
    seen: list[list[str]] = []
    for _ in range(4):
        seen.append([row.text for row in choices.rows(80, 3)])
        choices.move(1)

    assert seen == [
        ["❯ answer 0", "  answer 1", "↓ answer 2"],
        ["  answer 0", "❯ answer 1", "↓ answer 2"],
        ["↑ answer 1", "❯ answer 2", "↓ answer 3"],
        ["↑ answer 2", "❯ answer 3", "↓ answer 4"],
    ]


def test_screen_too_narrow_for_a_wide_character_shows_an_ellipsis() -> None:
    """Two-cell characters on a screen of three columns."""
    rows = Choices([Choice("漢字", ("y",))], "decline").rows(3, 20)

    assert [row.text for row in rows][:2] == ["  …", "  …"]


def test_enter_on_a_checked_box_goes_to_the_row_that_accepts_all() -> None:
    """It unchecked what the space bar had just checked, and the answer lacked it."""
    boxes = [
        Choice(f"[{'x' if n == 2 else ' '}] {n}", (str(n),), is_checkbox=True, is_checked=n == 2)
        for n in (1, 2)
    ]
    done = Choice("Done: 2", ("done",), is_default=True)
    choices = Choices([*boxes, done], "answer in your own words")

    assert choices.taken() is done
    assert choices.rows(98, 20)[-1].text.strip().startswith("Space ticks · type anything else to")
    choices.move(1)
    unchecked = choices.leaves_box()
    choices.move(1)
    checked = choices.leaves_box()
    last = choices.taken()
    choices.typed("2")

    assert (unchecked, checked, last) == (False, True, done)
    assert not choices.leaves_box()  # a typed number unchecks it


CTRL_C, CTRL_O, ESCAPE, UP, DOWN, PAGE_DOWN = "\x03", "\x0f", "\x1b", "\x1b[A", "\x1b[B", "\x1b[6~"
NAMES = [f"session {number}" for number in range(9)]
HINT = "↑ ↓ · Enter · Esc leaves"


def picking(it: Live, rows: list[str]) -> "asyncio.Future[int | None]":
    picker: Picker = it.screen.picker
    return asyncio.ensure_future(picker.pick(it.screen.app, "which?", rows))


async def test_picker_moves_with_arrows_and_closes_when_enter_chooses(tmp_path: Path) -> None:
    """It never has more rows than half of the screen; rows scrolled past come back."""
    async with live(tmp_path) as it:
        it.screen.buffer.text = "a draft"
        taken = picking(it, NAMES)
        await it.until(lambda: it.rows[0] == "which?")
        count = f"  5 more ↓ · {HINT}"
        assert it.rows == ["which?", *[f"  {name}" for name in NAMES[:4]], count]
        it.type(DOWN * 5)
        await it.until(lambda: it.rows[1:5] == [f"  {name}" for name in NAMES[2:6]])
        it.type(f"{UP}\r")

        assert await taken == 4
        await it.until(lambda: it.rows == ["you> a draft"])


async def test_picker_filters_by_typed_words_in_any_order_and_case(tmp_path: Path) -> None:
    """The index refers to the whole list; Enter without a match chooses nothing."""
    async with live(tmp_path) as it:
        taken = picking(it, ["Fix the basket", "Basket tests", "Deploy"])
        it.type("nothing\r")
        await it.until(lambda: it.rows == ["which? nothing", f"  0 of 3 · {HINT}"])
        it.type("\x15tests BASK")
        await it.until(
            lambda: it.rows == ["which? tests BASK", "  Basket tests", f"  1 of 3 · {HINT}"]
        )
        it.type("\r")

        assert await taken == 1


@pytest.mark.parametrize(("typed", "left"), [("a sentence ", "a sentence"), ("session 3", "")])
async def test_leaving_the_picker_returns_typed_text_that_no_row_fits(
    typed: str, left: str, tmp_path: Path
) -> None:
    """A list may open while one types: such a sentence is no filter, and used to be lost."""
    async with live(tmp_path) as it:
        taken = picking(it, NAMES)
        it.type(typed)
        await it.until(lambda: it.rows[0] == f"which? {typed}".rstrip())
        it.type(ESCAPE)

        assert await taken is None
        await it.until(lambda: it.rows == [f"you> {left}".rstrip()])


@pytest.mark.parametrize("key", [ESCAPE, CTRL_C, CTRL_O])
async def test_leaving_the_picker_chooses_nothing_and_stops_nothing(
    key: str, tmp_path: Path
) -> None:
    """Esc closes the list, not the command around it; so does Ctrl-O, which may have opened it."""
    async with live(tmp_path) as it:
        it.person.is_busy = True
        taken = picking(it, NAMES)
        await it.until(lambda: it.rows[0] == "which?")
        it.type(key)

        assert (await taken, it.person.interrupted, it.person.got) == (None, 0, [])
        await it.until(lambda: it.rows == ["you>"])


async def test_picker_selection_stops_at_both_ends_of_the_list(tmp_path: Path) -> None:
    """Neither a page key nor an arrow leaves it."""
    async with live(tmp_path) as it:
        for keys, expected in ((PAGE_DOWN * 5 + DOWN, 8), (UP * 3, 0)):
            taken = picking(it, NAMES)
            it.type(f"{keys}\r")

            assert await taken == expected


async def test_picker_filters_by_pasted_text(tmp_path: Path) -> None:
    """It used to land in the hidden draft; only one line of it can match a row."""
    async with live(tmp_path) as it:
        taken = picking(it, ["Fix the basket", "Deploy"])
        await it.until(lambda: it.rows[0] == "which?")
        it.type("\x1b[200~Deploy\nand more\x1b[201~")
        await it.until(lambda: it.rows[:2] == ["which? Deploy", "  Deploy"])
        it.type("\r")

        assert (await taken, it.screen.draft.text) == (1, "")
