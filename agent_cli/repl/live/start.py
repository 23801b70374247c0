"""Open the screen on this process's terminal."""

import os
import sys
from pathlib import Path

from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.output import ColorDepth

from agent_cli.repl.live.cells import row_width, rows_taken
from agent_cli.repl.live.input.keyboard import QUESTION, Ground, GroundAnswer, Keyboard, first_guess
from agent_cli.repl.live.keys import bind_keys
from agent_cli.repl.live.listener import Listener
from agent_cli.repl.live.output import FrameOutput
from agent_cli.repl.live.screen import LiveScreen
from agent_cli.repl.look import Look
from agent_cli.terminal.first_prompt import FIRST_PROMPT, PROMPT


def open_screen(history: Path, listener: Listener, *, look: Look, typed: str) -> LiveScreen:
    """Return the screen of this process; *typed* are keys pressed before it could read them."""
    depth = None if look.color else ColorDepth.DEPTH_1_BIT
    output = FrameOutput.from_pty(sys.stdout, os.environ.get("TERM"), default_color_depth=depth)
    assert isinstance(output, FrameOutput)
    answer = GroundAnswer()
    keyboard = Keyboard(sys.stdin, answer)
    output.write_raw(_back_over(typed, output.get_size().columns))
    if typed:
        keys: list[KeyPress] = []
        Vt100Parser(keys.append).feed_and_flush(typed)
        store_typeahead(keyboard, keys)
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
    rows = (PROMPT + typed).split("\r")
    above = sum(rows_taken(row_width(row), columns) for row in rows) - 1
    return f"\r\x1b[{above}A" if above else "\r"
