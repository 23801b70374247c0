"""No sentence approves a call, however it is typed: nothing runs, and the model reads the sentence.

`sentences.txt` holds replies other than yes or no; many begin with a letter that once was a key.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

from agent_cli.contracts.timeline import ToolOutput, text_of
from agent_cli.core.projection import entries
from agent_cli.repl.dialogue import DialogParts
from agent_cli.repl.live.asking import SILENCE_S
from agent_cli.repl.runs import Runs
from agent_cli.terminal.writer import Style
from tests.repl.live.test_screen import Live, live
from tests.repl.scripted_app import Application
from tests.repl.terminal import Terminal

SENTENCES: Final = (Path(__file__).with_name("sentences.txt")).read_text().splitlines()
ENTER: Final = KeyPress(Keys.ControlM, "\r")
# Keys a second; the last two pass the whole text at once.
SPEEDS: Final = (5, 15, 50, 200, "paste", "marked paste")


class Lines:
    """Shows nothing."""

    def aside(self, text: str, style: Style = "plain") -> None:
        pass

    notice = markdown = aside


class Asked:
    """A session without a display; each `question` is one call that waits for a decision."""

    def __init__(self, it: Live) -> None:
        self.it = it
        self.app = Application()
        self.runs = Runs(
            self.app,
            DialogParts(questions=it.screen.asking, lines=Lines(), turn=asyncio.Lock()),
        )

    async def question(self, keys: Callable[[], None]) -> str:
        """Ask about a call, press *keys* once Enter answers; return the result for the model."""
        asking = self.it.screen.asking
        self.app.agent.reset()
        running = asyncio.ensure_future(self.runs.prompt("bash touch made"))
        await self.it.until(lambda: bool(asking.question and asking.question.draft == ""))
        assert asking.question
        asking.question.shown()
        self.it.now_s += SILENCE_S + 0.01
        keys()
        with suppress(TimeoutError):
            async with asyncio.timeout(5):
                await running
        return self.told()

    def told(self) -> str:
        """Return the result of the last call, or ""."""
        outputs = entries(self.app.agent.conversation.prompts)
        results = [out.result for out in outputs if isinstance(out, ToolOutput)]
        return text_of(getattr(results[-1], "content", ()))

    def type(self, text: str, speed: int | str) -> None:
        """Type *text* and Enter."""
        keys = [KeyPress(char, char) for char in text]
        if speed == "marked paste":
            keys = [KeyPress(Keys.BracketedPaste, text)]
        if isinstance(speed, str):
            self.feed([*keys, ENTER])
            return
        for key in (*keys, ENTER):
            self.it.now_s += 1 / speed
            self.feed([key])

    def feed(self, keys: Sequence[KeyPress]) -> None:
        """Pass *keys* as one read of the keyboard does."""
        processor = self.it.screen.app.key_processor
        processor.feed_multiple([*keys])
        processor.process_keys()


def test_sample_has_500_sentences_with_every_answer_key_as_a_first_letter() -> None:
    """It includes some for each letter and digit that is, or once was, a key."""
    firsts = {sentence[0].lower() for sentence in SENTENCES}

    assert len(set(SENTENCES)) == 500
    assert firsts >= {*"ynapev0123456789"}


async def _none_answers(tmp_path: Path, speed: int | str, sentences: Sequence[str]) -> None:
    read: list[str] = []
    async with live(tmp_path) as it:
        asked = Asked(it)
        for sentence in sentences:
            said = await asked.question(lambda said=sentence: asked.type(said, speed))  # type: ignore[misc]
            read += [sentence] if said.endswith(f"says: {sentence}") else []

    assert read == [*sentences]
    assert not Path("made").exists()
    assert asked.app.permissions.remembered == set()
    assert not asked.app.permissions.project_file.exists()


@pytest.mark.parametrize("at", range(len(SPEEDS)), ids=map(str, SPEEDS))
async def test_no_typed_sentence_approves_a_call(tmp_path: Path, at: int) -> None:
    """Nothing runs, no rule is stored, the model reads it; a slow test takes all at each speed."""
    await _none_answers(tmp_path, SPEEDS[at], SENTENCES[at :: 12 * len(SPEEDS)])


@pytest.mark.slow
@pytest.mark.parametrize("speed", SPEEDS)
async def test_no_sentence_approves_a_call_at_any_typing_speed(
    tmp_path: Path, speed: int | str
) -> None:
    """All 500 at each of the six speeds."""
    await _none_answers(tmp_path, speed, SENTENCES)


@pytest.mark.parametrize("speed", [5, 50, 200])
async def test_sentence_interrupted_by_the_question_stays_whole(tmp_path: Path, speed: int) -> None:
    """It was begun as a message, and is sent as one; no part of it decides."""
    async with live(tmp_path) as it:
        asked = Asked(it)
        asking = it.screen.asking
        for sentence in SENTENCES[::50]:
            it.person.got.clear()
            half = len(sentence) // 2
            for char in sentence[:half]:
                it.now_s += 1 / speed
                asked.feed([KeyPress(char, char)])
            asked.app.agent.reset()
            running = asyncio.ensure_future(asked.runs.prompt("bash touch made"))
            await it.until(lambda: asking.question is not None)
            assert asking.question
            asking.question.shown()
            asked.type(sentence[half:], speed)
            assert it.person.got == [(sentence, False)]
            assert not running.done()
            it.now_s += SILENCE_S + 0.01
            asked.type("n", 1)
            await running
            assert not asked.told().partition("says: ")[2]

    assert not Path("made").exists()


def test_sentences_typed_in_a_real_terminal_approve_no_call() -> None:
    """A sample on a real terminal, written at full speed, marked as pasted and not."""
    with Terminal() as terminal:
        terminal.until_loaded()
        for number, sentence in enumerate(SENTENCES[:: len(SENTENCES) // 3]):
            terminal.send(f"bash touch made{number}\r")
            terminal.until("❯ 1 Yes")
            terminal.send(f"\x1b[200~{sentence}\x1b[201~\r" if number % 2 else f"{sentence}\r")
            read = f"does not want this call to run and says: {sentence}"
            terminal.until(lambda read=read: read in " ".join(terminal.text.split()))  # type: ignore[misc]
            terminal.until_prompt()

    assert not [*Path().glob("made*")]
    assert not Path("permissions.toml").exists()


@pytest.mark.parametrize("seen", ["you> bash touch made", "Run touch made"])
def test_sentence_sent_around_a_question_reaches_the_model_in_a_real_terminal(seen: str) -> None:
    """Before, while and after the question opens; the Enter that follows runs nothing."""
    with Terminal() as terminal:
        terminal.until_loaded()
        for number, sentence in enumerate(SENTENCES[5 :: len(SENTENCES) // 8]):
            terminal.send(f"bash touch made{number}\r")
            terminal.until(f"{seen}{number}")
            terminal.send(f"{sentence}\r")
            read = re.compile(f"says: {re.escape(sentence)}|You said {re.escape(repr(sentence))}")
            asks = re.compile("your message goes out after this answer")
            terminal.until(partial(_shows, terminal, read, asks))
            terminal.send("\r")
            if not _shows(terminal, read):
                terminal.send("n")
                terminal.until("❯ 5 No")
                terminal.send("\r")
            terminal.until(partial(_shows, terminal, read))
            terminal.until_prompt()

    assert not [*Path().glob("made*")]


def _shows(terminal: Terminal, *patterns: re.Pattern[str]) -> bool:
    text = " ".join(terminal.text.split())
    return any(pattern.search(text) for pattern in patterns)
