"""Sign in to an HTTP server: open the page in a browser, and accept a pasted URL."""

import asyncio
from typing import Final
from urllib.parse import parse_qs, urlsplit

from agent_cli.contracts.errors import UsageError
from agent_cli.repl.commands.spec import Context
from agent_cli.repl.mcp.foreign_words import named, page_rows, web_host
from agent_cli.system.desktop import open_page

_GAVE_UP: Final = "you gave up"


class SignIn:
    """Shows the sign-in page of one server, and waits until the user is back or gives up."""

    def __init__(self, context: Context, server: str) -> None:
        self._context = context
        self._server = server
        self._given_up = asyncio.Event()

    def give_up(self) -> None:
        """Stop asking, because the sign-in was abandoned."""
        self._given_up.set()

    async def visit(self, url: str) -> str | None:
        """Show *url* and return the pasted URL; a `Visit`.

        Raises:
            UsageError: The user gave up; possibly inside an exception group.
        """
        if not web_host(url):
            raise UsageError(f"{named(self._server)} names a sign-in page that is not a web page")
        rows = [
            f"sign in to {named(self._server)} on this page:",
            *page_rows(url),
            "It should open in your browser, and this goes on when you are done there. With the",
            "browser on another computer: paste the address it ends at, even if nothing loads.",
        ]
        self._context.writer.aside("\n".join(rows))
        await open_page(url)
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(self._watch())
            address = await _pasted(self._context)
            watching.cancel()
        return address

    async def _watch(self) -> None:
        await self._given_up.wait()
        raise UsageError(_GAVE_UP)


async def _pasted(context: Context) -> str:
    """Return the pasted URL; cancelled when the browser returns by itself.

    Raises:
        UsageError: They gave up.
    """
    try:
        address = await context.questions.choose("address (Ctrl-C: give up): ", "")
        while not _is_way_back(address):
            context.writer.aside("that address brings nothing back: it has code= or error= in it")
            address = await context.questions.choose_next("address (Ctrl-C: give up): ", "")
    except (KeyboardInterrupt, EOFError):
        raise UsageError(_GAVE_UP) from None
    return address.strip()


def _is_way_back(address: str) -> bool:
    try:
        return not parse_qs(urlsplit(address.strip()).query).keys().isdisjoint({"code", "error"})
    except ValueError:
        return False
