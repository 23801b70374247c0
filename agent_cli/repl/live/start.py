"""A session on a real terminal, from opening the screen to the last prompt."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.output import ColorDepth

from agent_cli.repl import Look
from agent_cli.repl.hosting import ProgramHost, farewell
from agent_cli.repl.live.input.keyboard import QUESTION, Ground, GroundAnswer, Keyboard, first_guess
from agent_cli.repl.live.keys import bind_keys
from agent_cli.repl.live.paint import row_width, rows_taken
from agent_cli.repl.live.queue_edit import Listener, Queued, move_line, release_line
from agent_cli.repl.live.screen import LiveScreen
from agent_cli.repl.live.shared_terminal import FrameOutput
from agent_cli.terminal.first_prompt import FIRST_PROMPT, PROMPT

if TYPE_CHECKING:
    from agent_cli.contracts.cancel import CancelToken
    from agent_cli.contracts.permission_modes import Mode
    from agent_cli.contracts.permissions import PermissionsPort
    from agent_cli.repl.live.controller import LiveShell
    from agent_cli.repl.ports import Application


def open_screen(history: Path, listener: Listener, *, look: Look, typed: str) -> LiveScreen:
    """Return the screen of this process; *typed* are keys pressed before it could read them."""
    depth = None if look.color else ColorDepth.DEPTH_1_BIT
    output = FrameOutput.from_pty(sys.stdout, os.environ.get("TERM"), default_color_depth=depth)
    assert isinstance(output, FrameOutput)
    answer = GroundAnswer()
    keyboard = Keyboard(sys.stdin, answer, look.keys)
    output.write_raw(_back_over(typed, output.get_size().columns))
    if typed:
        keys: list[KeyPress] = []
        Vt100Parser(keys.append).feed_and_flush(keyboard.whole(typed))
        store_typeahead(keyboard, keyboard.meant(keys))
    screen = LiveScreen(
        history, listener, output=output, color=look.color, vi=look.vi, keyboard=keyboard
    )
    bind_keys(screen)
    if look.theme == "auto" and look.color:
        _find_ground(screen, answer)
    return screen


def _find_ground(screen: LiveScreen, answer: GroundAnswer) -> None:
    """Ask for the colour of the background once the first frame is drawn, when keys are not echoed.

    Until the answer comes, if it does, *screen* has the colours for the ground that is likely.
    """
    screen.paint.ground = first_guess(os.environ)
    screen.app.answers_in_s = lambda: answer.wait_s

    def use(ground: Ground) -> None:
        screen.paint.ground = ground
        screen.refresh()

    def ask(_app: object) -> None:
        if not answer.is_expected:
            answer.expect(use)
            screen.send(QUESTION)

    screen.app.after_render += ask


def _back_over(typed: str, columns: int) -> str:
    """Return the sequence that moves the cursor to the start of our first row on the screen.

    The terminal itself echoed *typed* there, behind the first prompt if that is shown.
    """
    if not FIRST_PROMPT.hand_over():
        # Typed before our start; the number of its rows is unknown.
        return "\r\x1b[J" if typed else ""
    rows = (PROMPT + typed.replace("\x1b", "^[")).split("\r")
    above = sum(rows_taken(row_width(row), columns) for row in rows) - 1
    return f"\r\x1b[{above}A" if above else "\r"


# Imported before the first prompt: standard library and prompt_toolkit only.
_NEXT_MODE: Final[dict["Mode", "Mode"]] = {"ask": "auto-edit", "auto-edit": "plan"}


class StartupQueue:
    """Queues typed lines behind the first lines until the shell is ready."""

    def __init__(self, first_lines: Sequence[str] = ()) -> None:
        self.lines = [_line(text) for text in first_lines]
        self.leave: Callable[[], None] = lambda: None

    @property
    def is_busy(self) -> bool:
        """Whether lines are queued."""
        return bool(self.lines)

    @property
    def aside(self) -> "CancelToken | None":
        """None: no command runs yet."""
        return None

    @property
    def queued(self) -> Sequence[Queued]:
        """The queued lines."""
        return self.lines

    def submit(self, text: str, *, follow_up: bool) -> bool:
        """Queue *text*, or leave."""
        del follow_up
        if text in ("exit", "quit", "/exit"):
            self.leave()
        elif text:
            self.lines.append(_line(text))
        return True

    def is_command(self, text: str) -> bool:
        """Return False: nothing asks yet."""
        del text
        return False

    def interrupt(self) -> None:
        """Discard the queued lines; they stay in the history."""
        self.lines.clear()

    def hold(self, message: Queued) -> bool:
        """Mark *message* as edited."""
        message.is_held = True
        return True

    def release(self, message: Queued, text: str) -> bool:
        """Put *message* back with another *text*; drop it if that is empty."""
        release_line(self.lines, message, text)
        return True

    def move(self, message: Queued, by: int) -> None:
        """Move *message* *by* places."""
        move_line(self.lines, message, by)

    def pause(self, *, paused: bool) -> None:
        """Do nothing: there is no display yet."""


def _line(text: str) -> Queued:
    return Queued(text, "once started")


class LiveShells:
    """Makes the shell of a session on a screen, and passes it the lines typed before."""

    def __init__(
        self, screen: LiveScreen, waiting: StartupQueue, look: Look, *, stays: bool = True
    ) -> None:
        """Unless it *stays*, the session ends after the first lines, with `farewell` set."""
        self.farewell = ""
        self._screen = screen
        self._waiting = waiting
        self._look = look
        self._stays = stays

    def load(self) -> None:
        """Import the shell, and with it the agent and the Markdown renderer."""
        from agent_cli.repl.live import controller  # noqa: F401 # pyright: ignore[reportUnusedImport]

    @asynccontextmanager
    async def open(self, app: "Application") -> "AsyncGenerator[LiveShell]":
        """Yield a shell that has greeted and shows events; stop it in the end."""
        from agent_cli.repl.live.controller import LiveShell

        self._screen.on_mode_requested = partial(cycle_mode, app.permissions)
        for _ in range(self._screen.requested_modes):
            self._screen.on_mode_requested()
        shell = LiveShell(app, self._screen, self._look)
        shell.greet()
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(shell.run())
            self._screen.listener = shell
            shell.queue(self._waiting.lines)
            if not self._stays:
                tasks.create_task(self._leave_after(shell))
            try:
                yield shell
            finally:
                if not running.done():  # it never ends by itself, but after a fault
                    await shell.stop()
                running.cancel()
                self.farewell = farewell(app)

    async def _leave_after(self, shell: "LiveShell") -> None:
        await shell.wait_for_idle()
        self._screen.leave()


class LiveRepl:
    """Shows the prompt and processes keys until the user leaves."""

    def __init__(self, screen: LiveScreen) -> None:
        self._screen = screen

    @property
    def exit_code(self) -> int:
        """The exit code of the session unless a signal ended it."""
        return 0

    async def run(self, host: "ProgramHost[LiveShell]") -> None:
        """Run the screen; the program is built after the first prompt is drawn."""
        self._screen.on_first_draw = host.drawn.set
        await self._screen.run()


def cycle_mode(permissions: "PermissionsPort") -> None:
    """Switch to the next mode; yolo is left out, so that one key press too many is harmless."""
    permissions.mode = _NEXT_MODE.get(permissions.mode, "ask")
