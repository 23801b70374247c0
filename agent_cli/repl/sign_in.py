"""Signing in to a server of the web: a page in the browser, and the way back from it."""

from urllib.parse import parse_qs, urlsplit

from agent_cli.errors import UsageError
from agent_cli.repl.command import Context
from agent_cli.repl.foreign_words import named
from agent_cli.repl.servers import Visit
from agent_cli.repl.web_pages import page_rows, web_host
from agent_cli.terminal.browser import open_page


def signing_in(context: Context, server: str) -> Visit:
    """Return what takes the person to the sign-in page of *server*."""

    async def visit(url: str) -> str | None:
        if not web_host(url):
            raise UsageError(f"{named(server)} names a sign-in page that is no web page")
        rows = [
            f"sign in to {named(server)} on this page:",
            *page_rows(url),
            "It should open in your browser, and this goes on when you are done there. With the",
            "browser on another computer: paste the address it ends at, even if nothing loads.",
        ]
        context.writer.aside("\n".join(rows))
        await open_page(url)
        return await _pasted(context)

    return visit


async def _pasted(context: Context) -> str:
    """Return the address somebody pasted; cancelled when the browser came back by itself.

    Raises:
        UsageError: They gave up.
    """
    try:
        address = await context.questions.choose("address (Ctrl-C: give up): ", "")
        while not _is_way_back(address):
            context.writer.aside("that address brings nothing back: it has code= or error= in it")
            address = await context.questions.choose_next("address (Ctrl-C: give up): ", "")
    except (KeyboardInterrupt, EOFError):
        raise UsageError("you gave up") from None
    return address.strip()


def _is_way_back(address: str) -> bool:
    try:
        return not parse_qs(urlsplit(address.strip()).query).keys().isdisjoint({"code", "error"})
    except ValueError:
        return False
