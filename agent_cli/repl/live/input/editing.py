"""Leaving the terminal to the person's editor for a while."""

from functools import partial

from prompt_toolkit.application import run_in_terminal

from agent_cli.repl.editor import edited
from agent_cli.repl.live.painter import Painter


async def edit_text(painter: Painter, text: str, ending: str) -> str:
    """Open *text* in the person's editor and return it as it was saved; see `edited`."""
    painter.drop_tail()
    return await run_in_terminal(partial(edited, text, ending), in_executor=True)
