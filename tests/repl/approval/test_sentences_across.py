"""A sentence typed while a question opens reaches the model at once, and never approves the call.

The whole session runs on a screen in memory with a simulated clock. Typing begins up to half a
second before or after the question, at six speeds, and a second Enter follows the sentence.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

import pytest
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

from agent_cli.contracts.messages import ToolResultMessage
from agent_cli.contracts.provider import Model, ModelRequest, StreamEvent
from agent_cli.core.agent import Agent
from agent_cli.core.loop_config import LoopConfig
from agent_cli.repl.live.asking import SILENCE_S
from tests.repl.approval.test_sentences import ENTER, SENTENCES, SPEEDS
from tests.repl.live.test_controller import session
from tests.repl.live.test_screen import Live
from tests.repl.scripted_app import Application
from tests.repl.scripted_model import bash, text

_EARLY_S: Final = 0.5


class Crossing:
    """A session whose model calls a command when released, and ends after its result."""

    def __init__(self, app: Application) -> None:
        self._released = asyncio.Event()
        self._asked = asyncio.Event()
        self.last_request = ""
        app.agent = Agent(
            LoopConfig(
                model=Model("model-1"), tools=app.tools, stream_fn=self._answer, approval="batch"
            )
        )
        self._agent = app.agent

    async def _answer(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        self.last_request = "\n".join(message.text for message in request.messages)
        if isinstance(request.messages[-1], ToolResultMessage) or self._released.is_set():
            reply = text("Done.")
        else:
            self._asked.set()
            await self._released.wait()
            reply = bash("touch made")
        async for event in reply:
            yield event

    async def faults(self, it: Live, sentence: str, speed: int | str, starts_s: float) -> list[str]:
        """Type *sentence* from *starts_s* after the question opens; return what went wrong."""
        self._released.clear()
        self._asked.clear()
        listener, asking = it.screen.listener, it.screen.asking
        listener.submit("begin", follow_up=False)
        await self._asked.wait()
        await it.until(lambda: listener.is_busy)
        zero_s = it.now_s = it.now_s + 10
        keys = _timed(sentence, speed, starts_s)
        for at_s, key in [each for each in keys if each[0] < 0]:
            it.now_s = zero_s + at_s
            _feed(it, key)
        it.now_s = zero_s
        self._released.set()
        await it.until(lambda: asking.question is not None)
        first = asking.question
        assert first
        await it.until(lambda: first.ripe_in_s < 9 and _is_drawn(it))
        found: list[str] = []
        for at_s, key in [each for each in keys if each[0] >= 0]:
            it.now_s = zero_s + at_s
            asking.drawn()  # as a redraw or a timer does meanwhile
            _feed(it, key)
        await _settled(it, first)
        if any("when done" in message.when for message in listener.queued):
            found.append("left for the end")
        it.now_s += 1 + SILENCE_S
        asking.drawn()
        if asking.question is first and asking.choices and asking.choices.taken():
            found.append("Enter would answer")
        _feed(it, ENTER)
        await _settled(it, first)
        if asking.question is first:
            for char in "n":
                _feed(it, KeyPress(char, char))
            _feed(it, ENTER)
        await it.until(lambda: not listener.is_busy)
        if sentence not in self.last_request:
            found.append("not in the next request")
        if Path("made").exists():
            Path("made").unlink()
            found.append("the call ran")
        it.screen.buffer.reset()
        self._agent.reset()
        return found


def _timed(
    sentence: str, speed: int | str, starts_s: float
) -> list[tuple[float, Sequence[KeyPress]]]:
    """Return each read of the keyboard with its time; an Enter ends them."""
    if speed == "marked paste":
        return [(starts_s, [KeyPress(Keys.BracketedPaste, sentence)]), (starts_s, [ENTER])]
    if isinstance(speed, str):
        return [(starts_s, [*(KeyPress(char, char) for char in sentence), ENTER])]
    keys = [*(KeyPress(char, char) for char in sentence), ENTER]
    return [(starts_s + at / speed, [key]) for at, key in enumerate(keys)]


def _feed(it: Live, keys: Sequence[KeyPress] | KeyPress) -> None:
    processor = it.screen.app.key_processor
    processor.feed_multiple([keys] if isinstance(keys, KeyPress) else [*keys])
    processor.process_keys()


def _is_drawn(it: Live) -> bool:
    it.screen.asking.drawn()
    return True


async def _settled(it: Live, question: object) -> None:
    """Let the run go on, until it ends or asks for an answer."""
    for _ in range(20):
        await asyncio.sleep(0)
    if it.screen.asking.question is not question:
        await it.until(lambda: not it.screen.listener.is_busy)


async def _faults(
    tmp_path: Path, speed: int | str, sentences: Sequence[str], *, seed: str = ""
) -> list[str]:
    chance = random.Random(f"{speed}{seed}")
    found: list[str] = []
    app = Application()
    crossing = Crossing(app)
    async with session(tmp_path, app=app) as it:
        for sentence in sentences:
            starts_s = chance.uniform(-_EARLY_S, _EARLY_S)
            for fault in await crossing.faults(it, sentence, speed, starts_s):
                found.append(f"{fault}: {sentence!r} from {starts_s:.2f} s")
    return found


@pytest.mark.parametrize("at", range(len(SPEEDS)), ids=map(str, SPEEDS))
async def test_sentence_typed_while_a_question_opens_reaches_the_model(
    tmp_path: Path, at: int
) -> None:
    """It declines the call, or goes out with the next request; a slow test takes all of them."""
    assert await _faults(tmp_path, SPEEDS[at], SENTENCES[at :: 16 * len(SPEEDS)]) == []


@pytest.mark.slow
@pytest.mark.parametrize("speed", SPEEDS)
async def test_every_sentence_typed_while_a_question_opens_reaches_the_model(
    tmp_path: Path, speed: int | str, request: pytest.FixtureRequest
) -> None:
    """All 500 at each of the six speeds; `make soak SEED=n` lets the typing begin elsewhere."""
    seed = str(request.config.getoption("--hypothesis-seed") or "")
    assert await _faults(tmp_path, speed, SENTENCES, seed=seed) == []
