"""Leaving the terminal to another program for a while: the person's editor, a command of theirs."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from prompt_toolkit.application.run_in_terminal import in_terminal

from agent_cli.repl.editor import edited
from agent_cli.repl.live.painter import Painter


@asynccontextmanager
async def terminal_lent(painter: Painter) -> AsyncGenerator[None]:
    """Take prompt and live rows off the screen while the body runs."""
    painter.drop_tail()
    async with in_terminal():
        yield


async def edit_text(painter: Painter, text: str, ending: str) -> str:
    """Open *text* in the person's editor and return it as it was saved; see `edited`."""
    async with terminal_lent(painter):
        return await asyncio.to_thread(edited, text, ending)
