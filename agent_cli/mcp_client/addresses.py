"""Which addresses a server may make us ask: none in a network it is not in itself.

A server on the internet names, in what it says about signing in and in redirects, addresses that
we then ask: the user's own machine or network must not be among them. A name that changes its
address between our look and the request is not caught.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeAlias
from urllib.parse import urlsplit

import httpx2
from mcp.client.auth import OAuthFlowError

from agent_cli.mcp_client.config import ServerConfig

_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
# RFC 6052, and RFC 4291 section 2.5.5.1.
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_LOCAL_NAT64 = ipaddress.IPv6Network("64:ff9b:1::/48")
_COMPATIBLE = ipaddress.IPv6Network("::/96")
Resolve: TypeAlias = Callable[[str], Awaitable[Sequence[str]]]


class Addresses:
    """The addresses one server may lead to."""

    def __init__(self, config: ServerConfig, resolve: Resolve | None = None) -> None:
        self._server = urlsplit(config.url).hostname or ""
        oauth = config.oauth
        named = (oauth.issuer, oauth.idp_token_endpoint)
        self._named = {self._server, *(urlsplit(url).hostname for url in named)}
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
        return not all(_is_global(each) for address in addresses for each in _reached(address))


def _is_global(address: _Address) -> bool:
    # Python 3.11 takes the prefix that every network may use for its own NAT64 for a public one.
    return address.is_global and address not in _LOCAL_NAT64


def _reached(address: _Address) -> Iterator[_Address]:
    """Yield *address* and those it leads to: some of version 6 hold one of version 4."""
    if isinstance(address, ipaddress.IPv4Address):
        yield address
        return
    inner = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in _NAT64 or address in _COMPATIBLE:
        inner.append(ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF))
    found = [each for each in inner if each is not None]
    yield from found
    if address.ipv4_mapped is None:
        yield address


async def _resolve(host: str) -> Sequence[str]:
    """Return the addresses of *host*; none when nobody knows it: the request fails by itself."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return ()
    # That of an interface on this machine may name it: fe80::1%eth0.
    return [str(address[0]).partition("%")[0] for *_, address in found]
