"""The picker in an emulated terminal."""

import asyncio
from pathlib import Path

import pytest
from prompt_toolkit.data_structures import Size

from agent_cli.repl.live.asking import SILENCE_S
from agent_cli.repl.live.picker import Picker
from tests.repl.live.test_screen import Live, live

CTRL_C, CTRL_D, CTRL_G, CTRL_O = "\x03", "\x04", "\x07", "\x0f"
ESCAPE, UP, DOWN, PAGE_DOWN = "\x1b", "\x1b[A", "\x1b[B", "\x1b[6~"
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
        first, *others = NAMES[:4]
        assert it.rows == ["which?", f"❯ {first}", *[f"  {name}" for name in others], count]
        it.type(DOWN * 5)
        *others, last = NAMES[2:6]
        await it.until(lambda: it.rows[1:5] == [*[f"  {name}" for name in others], f"❯ {last}"])
        it.type(f"{UP}\r")

        assert await taken == 4
        await it.until(lambda: it.rows == ["you> a draft"])


async def test_picker_begins_at_the_row_that_holds_now(tmp_path: Path) -> None:
    """Enter alone changes nothing, behind an erased filter too; one marks the first that fits."""
    async with live(tmp_path) as it:
        taken = asyncio.ensure_future(it.screen.picker.pick(it.screen.app, "which?", NAMES, 6))
        await it.until(lambda: "❯ session 6" in it.rows)
        it.type("2")
        await it.until(lambda: "❯ session 2" in it.rows)
        it.type("\x7f")
        await it.until(lambda: "❯ session 6" in it.rows)
        it.type("\r")
        assert await taken == 6


async def test_picker_filters_by_typed_words_in_any_order_and_case(tmp_path: Path) -> None:
    """The index refers to the whole list; Enter without a match chooses nothing."""
    async with live(tmp_path) as it:
        taken = picking(it, ["Fix the basket", "Basket tests", "Deploy"])
        it.type("nothing\r")
        await it.until(lambda: it.rows == ["which? nothing", f"  0 of 3 · {HINT}"])
        it.type("\x15tests BASK")
        await it.until(
            lambda: it.rows == ["which? tests BASK", "❯ Basket tests", f"  1 of 3 · {HINT}"]
        )
        it.type("\r")

        assert await taken == 1


async def test_question_is_whole_or_says_that_it_is_cut_in_a_small_window(tmp_path: Path) -> None:
    """In six rows of 20 columns it was its first word, without a sign of more."""
    for question, shown in (
        ("model: haiku; which one?", ["model:", "haiku;", "which one?"]),
        ("model: haiku; which one do you want?", ["model:", "haiku;", "which one…"]),
    ):
        async with live(tmp_path) as it:
            it.size = Size(rows=6, columns=20)
            picker: Picker = it.screen.picker
            taken = asyncio.ensure_future(picker.pick(it.screen.app, question, NAMES))
            await it.until(lambda: it.rows[-1].startswith("  8 more"))

            assert it.rows[:4] == [*shown, "❯ session 0"]
            it.type(CTRL_C)
            assert await taken is None


async def test_long_question_has_rows_of_its_own_above_the_filter(tmp_path: Path) -> None:
    """It was cut at the edge: the price of a change of the model could not be read."""
    question = "the model changed from one to another: about 37,202 tokens are read anew ($0.1905)"
    async with live(tmp_path) as it:
        picker: Picker = it.screen.picker
        taken = asyncio.ensure_future(picker.pick(it.screen.app, question, ["change", "keep"]))
        it.type("kee")
        await it.until(lambda: it.rows[-1].startswith("  1 of 2"))

        *asked, row, _count = it.rows
        assert (" ".join(asked), row) == (f"{question} kee", "❯ keep")
        assert len(asked) > 1
        it.type("\r")
        assert await taken == 1


async def test_picker_filters_in_vis_normal_mode_too(tmp_path: Path) -> None:
    """Escape before Enter is a habit; the letters behind it moved a cursor."""
    async with live(tmp_path, vi=True) as it:
        await it.press(ESCAPE)
        taken = picking(it, NAMES)
        await it.until(lambda: it.rows[0] == "which?")
        it.type("7\r")

        assert await taken == 7


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


async def test_filter_typed_into_a_list_that_was_seen_is_dropped_with_the_list(
    tmp_path: Path,
) -> None:
    """Esc left it in the input, before the draft."""
    async with live(tmp_path) as it:
        taken = picking(it, NAMES)
        await it.until(lambda: it.rows[0] == "which?")
        it.now_s += SILENCE_S + 0.01
        it.type("basket")
        await it.until(lambda: it.rows[0] == "which? basket")
        it.type(ESCAPE)

        assert await taken is None
        await it.until(lambda: it.rows == ["you>"])


@pytest.mark.parametrize("key", [ESCAPE, CTRL_C, CTRL_D, CTRL_G, CTRL_O])
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
        await it.until(lambda: it.rows[:2] == ["which? Deploy", "❯ Deploy"])
        it.type("\r")

        assert (await taken, it.screen.draft.text) == (1, "")
