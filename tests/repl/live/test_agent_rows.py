"""The rows of running agents above the input: keys from a pipe, an emulated terminal."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from agent_cli.contracts.agents import AgentInfo
from tests.repl.live.test_screen import CTRL_C, ESCAPE, UP, Live, live

DOWN, ENTER, CTRL_O = "\x1b[B", "\r", "\x0f"
HINT = "  Esc stops it · Enter · ↑ ↓"


def agents(count: int) -> list[AgentInfo]:
    return [AgentInfo(n, f"agent plan (task {n})", "thinking", True) for n in range(1, count + 1)]


def show(it: Live, working: Sequence[AgentInfo]) -> None:
    it.screen.agents.agents = lambda: working


async def see(it: Live, *rows: str) -> None:
    try:
        await it.until(lambda: it.rows == [*rows, "you>"])
    except TimeoutError:
        assert it.rows == [*rows, "you>"]
        raise


async def test_arrow_down_selects_an_agent_and_escape_stops_only_that_agent(tmp_path: Path) -> None:
    """The run continues; a second Esc, meant for the same agent, reaches no other one."""
    async with live(tmp_path) as it:
        first, second = agents(2)
        it.person.is_busy = True
        show(it, [first, second])
        it.type(DOWN + DOWN)
        await see(
            it, "  1 agent plan (task 1) · thinking", "❯ 2 agent plan (task 2) · thinking", HINT
        )
        await it.press(ESCAPE)
        await it.until(lambda: it.person.got == [("/agents stop 2", False)])
        stopping = replace(second, state="stopping", is_stopping=True)
        show(it, [first, stopping])
        await it.press(ESCAPE)
        await see(
            it, "  1 agent plan (task 1) · thinking", "❯ 2 agent plan (task 2) · stopping", HINT
        )
        ended = replace(stopping, state="ended", is_running=False, is_stopping=False)
        show(it, [first, ended])
        it.screen.refresh()
        await see(
            it,
            "  1 agent plan (task 1) · thinking",
            "❯ 2 agent plan (task 2) · ended",
            "  Esc leaves · Enter · ↑ ↓",
        )
        it.type(ESCAPE)
        await see(it)

        assert it.person.got == [("/agents stop 2", False)]
        assert it.person.interrupted == 0
        it.type(ESCAPE)
        await it.until(lambda: it.person.interrupted == 1)


async def test_enter_and_ctrl_o_show_the_work_of_the_selected_agent(tmp_path: Path) -> None:
    async with live(tmp_path) as it:
        show(it, agents(2))
        it.type(DOWN + DOWN + ENTER)
        await it.until(lambda: it.person.got == [("/agents 2", False)])
        it.type(UP + CTRL_O)
        await it.until(lambda: it.person.got[1:] == [("/agents 1", False)])


async def test_arrow_up_or_typing_leaves_the_agent_rows(tmp_path: Path) -> None:
    """The input is always one key away, and typed text is never lost."""
    async with live(tmp_path) as it:
        show(it, agents(1))
        it.type(DOWN)
        await see(it, "❯ 1 agent plan (task 1) · thinking", HINT)
        it.type(UP)
        await see(it)
        it.type(f"{DOWN}draft")
        await it.until(lambda: it.rows == ["you> draft"])
        it.type("\x15")
        await see(it)


async def test_keys_keep_their_usual_meaning_while_no_agent_is_running(tmp_path: Path) -> None:
    async with live(tmp_path) as it:
        it.person.is_busy = True
        show(it, [replace(agents(1)[0], is_running=False)])
        it.type(f"once{ENTER}")
        await it.until(lambda: it.person.got == [("once", False)])
        it.type(DOWN + UP)
        await it.until(lambda: it.rows == ["you> once"])
        it.type(f"{DOWN}{CTRL_C}")
        await it.until(lambda: it.person.interrupted == 1)


async def test_question_gets_its_keys_and_closes_the_agent_rows(tmp_path: Path) -> None:
    """Enter and arrows belong to the question; the selection is gone once it is answered."""
    async with live(tmp_path) as it:
        show(it, agents(1))
        it.type(DOWN)
        await see(it, "❯ 1 agent plan (task 1) · thinking", HINT)
        answer = await it.asked("allow? ", "yn")
        it.type(f"{DOWN}y{ENTER}")

        assert await answer == "y"
        assert it.person.got == []
        await see(it, "allow? y")


async def test_low_screen_shows_only_the_agent_rows_around_the_selected_one(tmp_path: Path) -> None:
    """Eight agents on twelve rows; a narrow screen has room for part of a name and a state."""
    async with live(tmp_path) as it:
        many = [replace(each, state="bash make a very long test") for each in agents(8)]
        show(it, many)
        it.type(DOWN * 6)
        await see(
            it,
            "  4 agent plan (tas… · bash make a ver…",
            "  5 agent plan (tas… · bash make a ver…",
            "❯ 6 agent plan (tas… · bash make a ver…",
            "  7 agent plan (tas… · bash make a ver…",
            HINT,
        )
        it.type(DOWN * 9 + ESCAPE)
        await it.until(lambda: it.person.got == [("/agents stop 8", False)])


async def test_in_vi_mode_escape_stops_the_selected_agent(tmp_path: Path) -> None:
    async with live(tmp_path, vi=True) as it:
        show(it, agents(1))
        it.type(DOWN)
        await see(it, "❯ 1 agent plan (task 1) · thinking", HINT)
        it.type(ESCAPE)
        await it.until(lambda: it.person.got == [("/agents stop 1", False)])
