"""Open the user's browser, detached from the terminal."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Final

from agent_cli.system.desktop import output_within
from agent_cli.system.programs import search_path

_OPEN_LIMIT_S: Final = 3.0


async def open_page(url: str) -> None:
    """Open *url* in the user's browser; do nothing if there is none.

    The browser runs in a process without a terminal: browsers write to theirs, or take it over.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        # Isolated, so that a webbrowser.py in the workspace is not run.
        *("-I", "-m", "webbrowser", url),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, "PATH": _path()},
    )
    # Some browsers run until their window is closed: only the starter is killed at the limit.
    await output_within(_OPEN_LIMIT_S, process)


def _path() -> str:
    """Return the PATH for finding a browser, without folders inside the current one."""
    return search_path(os.environ.get("PATH", os.defpath), outside=Path.cwd())
