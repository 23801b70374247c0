"""Random keys, pastes, resizes and interrupts, during minutes of simulated time.

The whole session runs in this process, on an event loop whose clock jumps to the next timer instead
of waiting for it. One seed determines the input (`make soak SEED=n`).
"""

import asyncio
import io
import logging
import random
import selectors
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, Final, TypeVar, TypeVarTuple

import pyte
import pytest
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import PipeInput, create_pipe_input

from agent_cli.contracts.timeline import ToolOutput, UserOutput, text_of
from agent_cli.core.projection import entries
from agent_cli.repl import Look
from agent_cli.repl.live.controller import LiveShell
from agent_cli.repl.live.input.editing import edited
from agent_cli.repl.live.keys import bind_keys
from agent_cli.repl.live.screen import LiveScreen
from agent_cli.repl.live.shared_terminal import FrameOutput, lines_left
from agent_cli.repl.live.start import LiveShells, StartupQueue
from tests.repl.scripted_app import Application

EPISODE_S: Final = 30.0
# Threads and processes get this much real time before the clock jumps.
GRACE_S: Final = 0.001
CTRL_C, CTRL_Q, ENTER, ESCAPE, REPAINT = "\x03", "\x11", "\r", "\x1b", "\x0c"
PASTE: Final = "\x1b[200~{}\x1b[201~"
LINES: Final = (
    "hello",
    "forever",
    "flood 0.2",
    "notes a && b && bad",
    "bash true",
    "think",
    "retry",
    "fail",
    "hostile",
    "!echo hi",
    "!!echo hi",
    "/help",
    "/context",
    "/tools",
    "/nothing",
    "/model high",
)
WILD_LINES: Final = ("/resume", "/clear", "/rewind", "/compact forever", "/compact", "/effort")
PASTES: Final = (
    "short",
    "two\r\nlines",
    "x" * 1_500,
    "\x1b]52;c;cm0=\x07\x1b[2J\0\udcff",
    "line\n" * 12,
    "漢字と絵文字 👩‍👩‍👧‍👦 e\u0301 \u202e",
    "/nowhere/picture.png",
)
MOVES: Final = ("\x1b[A", "\x1b[B", "\x0c", "\x13", CTRL_Q, "\n", "\x1b\r")
WILD_KEYS: Final = (
    # All control keys but those that suspend, end or quote, and escape sequences of others.
    *(chr(code) for code in range(1, 32) if chr(code) not in "\x1a\x1b\x1c\x16"),
    *(
        f"\x1b[{end}"
        for end in ("A", "B", "C", "D", "H", "F", "3~", "5~", "6~", "Z", "1;5C", "1;3D")
    ),
    *(f"\x1b{key}" for key in "bdfuylctn.<>\x7f"),
    *"\x7fabyn1a @/!\\漢é👍",
    "\x1b[13;2u",
    ESCAPE,
)


Given = TypeVarTuple("Given")
Returned = TypeVar("Returned")


class Jumping(selectors.DefaultSelector):
    """Waits for files only; `passed_s` is the time it would have waited.

    None passes while an editor has the terminal, `editors` of them: one that takes 50 ms to start
    would otherwise have it for a minute. Other threads may wait for what happens later.
    """

    passed_s = 0.0
    editors = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        ready = super().select(GRACE_S)
        if not ready and not self.editors:
            self.passed_s += min(timeout or 0.01, 1.0)
        return ready


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop on which an hour of waiting takes a second."""

    def __init__(self) -> None:
        self._jumping = Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.passed_s

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Given], Returned], *args: *Given
    ) -> "asyncio.Future[Returned]":
        future = super().run_in_executor(executor, func, *args)
        work: object = func
        if work is edited:
            self._jumping.editors += 1
            future.add_done_callback(self._left)
        return future

    def _left(self, _editor: object) -> None:
        self._jumping.editors -= 1


class Episode:
    """One session with random input."""

    def __init__(self, keyboard: PipeInput, dice: random.Random, history: Path) -> None:
        loop = asyncio.get_running_loop()
        self.dice = dice
        self.size = Size(rows=24, columns=80)
        self.written = io.StringIO()
        self._terminal = pyte.Screen(80, 24)
        self._stream = pyte.Stream(self._terminal)
        self._seen = 0
        self._keyboard = keyboard
        self.app = Application()
        waiting = StartupQueue()
        output = FrameOutput(self.written, lambda: self.size, term="xterm")
        self.screen = LiveScreen(
            history, waiting, output=output, keyboard=keyboard, clock=loop.time
        )
        bind_keys(self.screen)
        waiting.leave = self.screen.leave
        self._shells = LiveShells(self.screen, waiting, Look())
        self.words: list[str] = []
        self.typed: list[str] = []

    async def run(self, seconds: float) -> None:
        """Type for *seconds*, and check repeatedly that no text is lost."""
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(self.screen.run())
            await asyncio.sleep(0.1)
            async with self.app, self._shells.open(self.app) as shell:
                try:
                    await self._type_until(asyncio.get_running_loop().time() + seconds, shell)
                finally:
                    self.screen.leave()
                    await running
        self.nothing_is_lost()

    async def _type_until(self, end_s: float, shell: LiveShell) -> None:
        while asyncio.get_running_loop().time() < end_s and self.is_running:
            await self._do(40, self.careful_actions())
            self.nothing_is_lost()
            await self.prompt_comes_back(shell)
            await self._do(40, self.wild_actions())
            await self.prompt_comes_back(shell)

    @property
    def is_running(self) -> bool:
        return self.screen.app.is_running

    async def _do(self, count: int, actions: Sequence[Callable[[], Awaitable[None]]]) -> None:
        for _ in range(count):
            if self.is_running:
                await self.dice.choice(actions)()
                await asyncio.sleep(self.dice.choice((0, 0, 0.02, 0.06, 0.2, 0.5)))
        await asyncio.sleep(0.5)

    def careful_actions(self) -> Sequence[Callable[[], Awaitable[None]]]:
        """All actions that do not delete typed text on purpose."""
        return (self.word, self.word, self.line, self.move, self.paste, self.resize, self.stop)

    def wild_actions(self) -> Sequence[Callable[[], Awaitable[None]]]:
        return (self.any_key, self.any_key, self.any_key, self.any_line, self.paste, self.resize)

    async def word(self) -> None:
        self.words.append(f"w{len(self.words)}q")
        self.type(f" {self.words[-1]} ")

    async def line(self) -> None:
        self.type(f"{self.dice.choice(LINES)}{ENTER}")

    async def any_line(self) -> None:
        self.type(f"{self.dice.choice(LINES + WILD_LINES)}{ENTER}")

    async def move(self) -> None:
        self.type(self.dice.choice(MOVES))

    async def any_key(self) -> None:
        self.type(self.dice.choice(WILD_KEYS))

    async def paste(self) -> None:
        self.type(PASTE.format(self.dice.choice(PASTES)))

    async def resize(self) -> None:
        self.look()
        self.size = Size(rows=self.dice.randint(4, 40), columns=self.dice.randint(12, 120))
        # The emulator does not rewrap and would leave its cursor outside; use a blank one.
        self._terminal = pyte.Screen(self.size.columns, self.size.rows)
        self._stream = pyte.Stream(self._terminal)
        self.screen.app._on_resize()

    async def stop(self) -> None:
        self.type(self.dice.choice((CTRL_C, ESCAPE)))
        # Keys right after Escape would combine with it.
        await asyncio.sleep(0.3)

    def type(self, keys: str) -> None:
        self.typed.append(keys)
        self._keyboard.send_bytes(keys.encode(errors="surrogateescape"))

    def look(self) -> str:
        """Return the row of the cursor."""
        text = self.written.getvalue()
        self._stream.feed(text[self._seen :])
        self._seen = len(text)
        row = self._terminal.buffer[self._terminal.cursor.y]
        return "".join(row[x].data for x in range(self.size.columns)).rstrip()

    async def prompt_comes_back(self, shell: LiveShell) -> None:
        """Stop and clear as a user would, until an empty prompt is shown."""
        for _ in range(60):
            await asyncio.sleep(0.7)
            if not self.is_running:
                return
            asking = self.screen.asking.question is not None
            searching = self.screen.app.layout.is_searching
            quiet = self.screen.draft.is_empty and not (shell.is_busy or asking or searching)
            if quiet and self.look() == "you>":
                return
            # A size that is restored at once is not repainted, and the emulator's screen is blank.
            self.type(f"{CTRL_Q}{REPAINT}" if quiet else CTRL_C)
        raise AssertionError(f"no prompt but {self.look()!r}; typed: {self.typed[-30:]}")

    def nothing_is_lost(self) -> None:
        """Find every word in the draft, in the history or in the conversation."""
        asked = self.screen.asking.question
        text = "\n".join(
            [
                self.screen.draft.text,
                *lines_left(self.screen.buffer),
                asked.draft if asked else "",
                self.screen.queue.left(),
                self.screen.picker.typed if self.screen.picker.is_open() else "",
                *self.screen.buffer.history.get_strings(),
                *_said(self.app),
            ]
        )
        lost = [word for word in self.words if word not in text]
        assert not lost, f"{lost} are lost; typed: {[keys[:20] for keys in self.typed[-60:]]}"
        self.words.clear()


def _said(app: Application) -> list[str]:
    found: list[str] = []
    for entry in entries(app.agent.conversation.prompts):
        if isinstance(entry, UserOutput):
            found.append(text_of(entry.content))
        elif isinstance(entry, ToolOutput):
            content = getattr(entry.result, "content", ())
            found.append(text_of(content))
    return found


async def type_at_random(seed: int, program_s: float) -> int:
    """Return the number of episodes; each has its own seed, which a failure names."""
    loop = asyncio.get_running_loop()
    failures: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _loop, context: failures.append(context))
    episodes = 0
    while loop.time() < program_s:
        name = f"{seed}-{episodes}"
        with create_pipe_input() as keyboard:
            episode = Episode(keyboard, random.Random(name), Path(f"history-{name}"))
            try:
                await episode.run(min(EPISODE_S, program_s - loop.time()))
            except BaseException as error:
                error.add_note(f"episode {name}")
                raise
        assert not failures, (name, failures)
        written = episode.written.getvalue()
        assert "Traceback" not in written and "Unhandled" not in written, name
        episodes += 1
    return episodes


def run_at_random(seed: int, program_s: float, caplog: pytest.LogCaptureFixture) -> int:
    with caplog.at_level(logging.INFO), asyncio.Runner(loop_factory=JumpingLoop) as runner:
        episodes = runner.run(type_at_random(seed, program_s))
    unexpected = [
        record.getMessage()
        for record in caplog.records
        if record.levelno >= logging.ERROR or record.exc_info
    ]
    assert not unexpected
    return episodes


@pytest.fixture(autouse=True)
def editor(monkeypatch: pytest.MonkeyPatch) -> None:
    """An editor for Ctrl-G that changes nothing."""
    monkeypatch.setenv("VISUAL", "true")


def test_twenty_seconds_of_random_input_lose_no_text(caplog: pytest.LogCaptureFixture) -> None:
    """S6: a short sample of the campaign below."""
    assert run_at_random(7, 20, caplog)


@pytest.mark.slow
def test_ten_minutes_of_random_input_lose_no_text(
    caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest
) -> None:
    """S6: no traceback, no lost text, and the prompt always comes back."""
    seed = int(request.config.getoption("--hypothesis-seed") or 1)

    # Half a minute each, plus the time for a prompt to return, which depends on the machine.
    assert run_at_random(seed, 600, caplog) >= 10
