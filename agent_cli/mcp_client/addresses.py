"""Restrict the addresses a server may send us to: none in a network it is not part of.

A server on the internet names URLs that we then request, in sign-in metadata and redirects: they
must not be on the user's own machine or network.
"""

from urllib.parse import urlsplit

import httpx2
from mcp.client.auth import OAuthFlowError

from agent_cli.mcp_client.config import ServerConfig
from agent_cli.system.addresses import Resolve, are_inside, resolve


class Addresses:
    """The addresses to which one server may lead."""

    def __init__(self, config: ServerConfig, resolve: Resolve = resolve) -> None:
        self._server = urlsplit(config.url).hostname or ""
        oauth = config.oauth
        named = (oauth.issuer, oauth.idp_token_endpoint)
        self._named = {self._server, *(urlsplit(url).hostname for url in named)}
        self._resolve = resolve

    async def check(self, request: httpx2.Request) -> None:
        """Check *request* right before it is sent.

        Raises:
            OAuthFlowError: The server is on the internet, but the target is not, or has no name.
        """
        # As it is sent: Python encodes some international names differently, and so finds others.
        host = request.url.raw_host.decode("ascii")
        if self._named & {host, request.url.host}:
            return
        try:
            if not await self._is_inside(host):
                return
        except UnicodeError as error:  # a label is empty or too long
            raise OAuthFlowError(f"{self._server} leads to {host}, which is no name") from error
        if not await self._is_inside(self._server):
            raise OAuthFlowError(
                f"{self._server} leads to {host}, which is inside your own network; if that is"
                " where you sign in, set the server's oauth.issuer to it"
            )

    async def _is_inside(self, host: str) -> bool:
        return are_inside(await self._resolve(host))
