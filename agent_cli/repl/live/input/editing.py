"""Give the terminal to another program for a while: an editor, or a shell escape."""

import asyncio
import subprocess
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from prompt_toolkit.application import get_app
from prompt_toolkit.application.run_in_terminal import in_terminal

from agent_cli.repl.editor import edited
from agent_cli.repl.live.painter import Painter

# Editors save a copy of unsaved text when they are terminated.
_END_LIMIT_S: Final = 2


@asynccontextmanager
async def terminal_lent(painter: Painter) -> AsyncGenerator[None]:
    """Remove prompt and live rows from the screen while the body runs."""
    await asyncio.sleep(painter.answers_in_s)  # else that program would get the terminal's answer
    painter.drop_tail()
    async with in_terminal():
        yield


async def edit_text(painter: Painter, text: str, ending: str) -> str:
    """Open *text* in the user's editor and return the saved text; see `edited`.

    If the session ends meanwhile, the editor is ended: leaving would wait for it.
    """
    started: list[subprocess.Popen[bytes]] = []
    is_over = threading.Event()

    def note(process: subprocess.Popen[bytes]) -> None:
        started.append(process)
        if is_over.is_set():  # the session ended while the editor was being started
            process.terminate()

    leaving = get_app().future
    async with terminal_lent(painter):
        loop = asyncio.get_running_loop()
        editing = loop.run_in_executor(None, edited, text, ending, note)
        if leaving:
            await asyncio.wait((editing, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not editing.done() and leaving:
            is_over.set()
            for process in started:
                process.terminate()
            await asyncio.wait((editing,), timeout=_END_LIMIT_S)
            for process in started:
                process.kill()
        return await editing
