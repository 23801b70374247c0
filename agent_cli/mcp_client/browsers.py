"""Ways to open a sign-in page: a browser, a command, or for tests a plain request."""

import asyncio
import shlex
from collections.abc import Callable
from typing import TextIO
from urllib.parse import urljoin

from agent_cli.contracts.errors import UsageError
from agent_cli.mcp_client.host import Visit
from agent_cli.system.desktop import open_page

_LIMIT_S = 30.0


def system_browser(say: Callable[[str], None]) -> Visit:
    """Return a function that shows the URL and opens it in the user's browser, if there is one."""

    async def visit(url: str) -> None:
        say(f"Sign in at {url}")
        await open_page(url)

    return visit


def pasting_browser(say: Callable[[str], None], keyboard: TextIO) -> Visit:
    """Return a function that also reads a pasted URL, for a browser on another machine."""
    browser = system_browser(say)
    if not keyboard.isatty():
        return browser

    async def visit(url: str) -> str | None:
        await browser(url)
        say("If the browser cannot come back here, paste the address it ended at:")
        return await _line(keyboard)

    return visit


async def _line(keyboard: TextIO) -> str:
    """Return the next non-empty line, "" at the end.

    Unlike a read in a thread, it can be cancelled.
    """
    loop = asyncio.get_running_loop()
    line: asyncio.Future[str] = loop.create_future()

    def read() -> None:
        text = keyboard.readline()
        if text.strip() or not text:
            loop.remove_reader(keyboard)
            line.set_result(text.strip())

    loop.add_reader(keyboard, read)
    try:
        return await line
    finally:
        loop.remove_reader(keyboard)


def command_browser(command: str) -> Visit:
    """Return a function that runs *command* with the URL as its last argument.

    Raises:
        UsageError: It is not a command.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"--oauth-browser {command!r}: {error}") from error
    if not words:
        raise UsageError(f"--oauth-browser {command!r}: it is not a command")

    async def visit(url: str) -> None:
        process = await asyncio.create_subprocess_exec(*words, url)
        await process.wait()

    return visit


def request_browser() -> Visit:
    """Return a function that requests the page and takes the redirect as the answer; for tests."""

    async def visit(url: str) -> str | None:
        import httpx2  # slow to load, and loaded already when this runs

        from agent_cli.system.http_requests import trust

        trusted = trust(is_tls=url.startswith("https:"))
        async with httpx2.AsyncClient(timeout=_LIMIT_S, verify=trusted) as web:
            response = await web.get(url)
        return urljoin(url, response.headers.get("location", ""))

    return visit
