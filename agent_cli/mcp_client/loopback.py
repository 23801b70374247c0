"""Receive the redirect of the browser after a sign-in: one request to a local port."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import parse_qs, urlsplit

from agent_cli.mcp_client.host import Visit

_PATH = "/callback"
_LINE_LIMIT_S = 10.0
_PAGE = "<!doctype html><title>agent-cli</title><p>{text} You can close this page."
_RESPONSE = (
    "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\n"
    "Content-Length: {length}\r\nConnection: close\r\n\r\n"
)


class Loopback:
    """A listener that takes the URL of the first request with a code or an error.

    Attributes:
        redirect_uri: The redirect URI to register with the authorization server.
    """

    def __init__(self, port: int) -> None:
        # Servers that compare redirect URIs exactly list "localhost", not 127.0.0.1.
        self.redirect_uri = f"http://localhost:{port}{_PATH}"
        self._arrived: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def address_after(self, url: str, visit: Visit) -> str:
        """Send the user to *url*; return the URL that the browser requested or the user pasted."""
        if self._arrived.done():
            self._arrived = asyncio.get_running_loop().create_future()
        async with asyncio.TaskGroup() as group:
            visiting = group.create_task(self._visit(url, visit))
            address = await self._arrived
            visiting.cancel()
        return address

    async def _visit(self, url: str, visit: Visit) -> None:
        pasted = await visit(url)
        if pasted and not self._arrived.done():
            self._arrived.set_result(pasted)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request; every path but that of the redirect is "not found"."""
        with contextlib.suppress(TimeoutError, ValueError, ConnectionError):
            async with asyncio.timeout(_LINE_LIMIT_S):
                words = (await reader.readline()).decode(errors="replace").split()
                while (await reader.readline()).strip():
                    pass
            target = words[1] if len(words) > 1 and words[0] == "GET" else ""
            parts = urlsplit(target)
            query = parse_qs(parts.query)
            expected = parts.path == _PATH and ("code" in query or "error" in query)
            if expected and not self._arrived.done():
                self._arrived.set_result(f"http://localhost{target}")
            text = "The sign-in goes on in the terminal." if expected else "There is nothing here."
            body = _PAGE.format(text=text).encode()
            status = "200 OK" if expected else "404 Not Found"
            writer.write(_RESPONSE.format(status=status, length=len(body)).encode() + body)
            await writer.drain()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


@asynccontextmanager
async def listening(port: int) -> AsyncGenerator[Loopback]:
    """Listen while the body runs, on *port* if it is free, else on any (0: any)."""
    async with AsyncExitStack() as stack:
        loopback: Loopback | None = None

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if loopback:
                await loopback.serve(reader, writer)

        try:
            server = await asyncio.start_server(serve, "127.0.0.1", port)
        except OSError:
            server = await asyncio.start_server(serve, "127.0.0.1", 0)
        await stack.enter_async_context(server)
        bound = server.sockets[0].getsockname()[1]
        # Browsers may try IPv6 first for "localhost"; without it they use IPv4.
        with contextlib.suppress(OSError):
            second = await asyncio.start_server(serve, "::1", bound)
            await stack.enter_async_context(second)
        loopback = Loopback(bound)
        yield loopback
