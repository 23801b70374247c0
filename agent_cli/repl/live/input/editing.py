"""Give the terminal to another program for a while: an editor, or a shell escape."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from prompt_toolkit.application.run_in_terminal import in_terminal

from agent_cli.repl.editor import edited
from agent_cli.repl.live.painter import Painter


@asynccontextmanager
async def terminal_lent(painter: Painter) -> AsyncGenerator[None]:
    """Remove prompt and live rows from the screen while the body runs."""
    painter.drop_tail()
    async with in_terminal():
        yield


async def edit_text(painter: Painter, text: str, ending: str) -> str:
    """Open *text* in the user's editor and return the saved text; see `edited`."""
    async with terminal_lent(painter):
        return await asyncio.to_thread(edited, text, ending)
