"""The question whose keys answer at once, with a clock of our own."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from agent_cli.repl.prompt import TerminalPrompt


class Clock:
    """Stands still until it is told; `asked` counts who looked."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.asked = 0

    def __call__(self) -> float:
        self.asked += 1
        return self.now_s


async def reached(condition: Callable[[], bool]) -> None:
    """Let the loop run until *condition* holds."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - prompt_toolkit has no event for it
            await asyncio.sleep(0)


async def answer_to(early: str, late: str, tmp_path: Path) -> str:
    """Press *early* at 0.29 s after the question was drawn and *late* at 0.31 s."""
    clock = Clock()
    with (
        create_pipe_input() as keyboard,
        create_app_session(input=keyboard, output=DummyOutput()),
    ):
        prompt = TerminalPrompt(
            tmp_path / "history", on_first_draw=lambda: None, warn=print, clock=clock
        )
        asking = asyncio.ensure_future(prompt.choose("allow? ", "yna"))
        await reached(lambda: clock.asked == 1)
        clock.now_s = 0.29
        keyboard.send_text(early)
        await reached(lambda: clock.asked > 1 or not early)
        clock.now_s = 0.31
        keyboard.send_text(late)
        return await asking


async def test_keys_within_300_ms_of_the_question_are_dropped(tmp_path: Path) -> None:
    """They were meant for something else: 52 reports of accidental approvals elsewhere."""
    assert await answer_to("y", "n", tmp_path) == "n"


async def test_a_key_alone_answers_and_inside_a_text_it_is_text(tmp_path: Path) -> None:
    """`use any name` holds y, n and a, and is one comment."""
    assert await answer_to("", "a", tmp_path) == "a"
    assert await answer_to("", "use any name\r", tmp_path) == "use any name"
