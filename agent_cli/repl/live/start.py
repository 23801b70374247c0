"""The screen over this process's terminal."""

import os
import sys
from pathlib import Path

from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.output import ColorDepth

from agent_cli.repl.live.input.keyboard import Keyboard
from agent_cli.repl.live.keys import bind_keys
from agent_cli.repl.live.listener import Listener
from agent_cli.repl.live.output import FrameOutput
from agent_cli.repl.live.screen import LiveScreen
from agent_cli.repl.look import Look


def open_screen(history: Path, listener: Listener, *, look: Look, typed: str) -> LiveScreen:
    """Return the screen of this process; *typed* are keys that came before it could read them."""
    depth = None if look.color else ColorDepth.DEPTH_1_BIT
    output = FrameOutput.from_pty(sys.stdout, os.environ.get("TERM"), default_color_depth=depth)
    assert isinstance(output, FrameOutput)
    keyboard = Keyboard(sys.stdin)
    if typed:
        # They stand on the screen already, put there by the terminal itself.
        output.write_raw("\r\x1b[J")
        keys: list[KeyPress] = []
        Vt100Parser(keys.append).feed_and_flush(typed)
        store_typeahead(keyboard, keys)
    screen = LiveScreen(
        history, listener, output=output, color=look.color, vi=look.vi, keyboard=keyboard
    )
    bind_keys(screen)
    return screen
