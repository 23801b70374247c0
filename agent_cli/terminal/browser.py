"""Open the user's browser, detached from the terminal."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Final

from agent_cli.system.programs import search_path

_OPEN_LIMIT_S: Final = 3.0


async def open_page(url: str) -> None:
    """Open *url* in the person's browser; where there is none, nothing happens.

    In a process of its own without a terminal: browsers write to theirs, and some take it over.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        # Isolated: a file of the workspace called webbrowser.py is not run.
        *("-I", "-m", "webbrowser", url),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, "PATH": _path()},
    )
    try:
        async with asyncio.timeout(_OPEN_LIMIT_S):
            await process.wait()
    except TimeoutError:
        pass  # some run until their window is closed
    finally:
        if process.returncode is None:
            process.kill()  # what started the browser; the browser itself goes on
            await process.wait()


def _path() -> str:
    """Return PATH for the search for a browser: nothing of it is in this folder."""
    return search_path(os.environ.get("PATH", os.defpath), outside=Path.cwd())
