"""Which addresses a server may make us ask: none in a network it is not in itself.

A server on the internet names, in what it says about signing in and in redirects, addresses that
we then ask: the user's own machine or network must not be among them. A name that changes its
address between our look and the request is not caught.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias
from urllib.parse import urlsplit

import httpx2
from mcp.client.auth import OAuthFlowError

from agent_cli.mcp_client.config import ServerConfig

Resolve: TypeAlias = Callable[[str], Awaitable[Sequence[str]]]


class Addresses:
    """The addresses one server may lead to."""

    def __init__(self, config: ServerConfig, resolve: Resolve | None = None) -> None:
        self._server = urlsplit(config.url).hostname or ""
        self._named = {self._server, urlsplit(config.oauth.issuer).hostname}
        self._resolve = resolve or _resolve

    async def check(self, request: httpx2.Request) -> None:
        """Let *request* pass, or not, right before it is sent.

        Raises:
            OAuthFlowError: The server is on the internet, and this leads to a place that is not.
        """
        host = request.url.host
        if host in self._named or not await self._is_inside(host):
            return
        if not await self._is_inside(self._server):
            raise OAuthFlowError(
                f"{self._server} leads to {host}, which is inside your own network; if that is"
                " where you sign in, set the server's oauth.issuer to it"
            )

    async def _is_inside(self, host: str) -> bool:
        """Whether one of the addresses of *host* is not of the internet."""
        addresses = map(ipaddress.ip_address, await self._resolve(host))
        return not all(
            (getattr(address, "ipv4_mapped", None) or address).is_global for address in addresses
        )


async def _resolve(host: str) -> Sequence[str]:
    """Return the addresses of *host*; none when nobody knows it: the request fails by itself."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return ()
    # That of an interface on this machine may name it: fe80::1%eth0.
    return [str(address[0]).partition("%")[0] for *_, address in found]
