"""`agent-cli mcp serve --http` as a child process, and clients for it."""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.e2e.program import started
from tests.forked import PipedProgram
from tests.messages_api import FakeMessagesApi

LIMIT_S: Final = 60.0
_ADDRESS: Final = re.compile(r"MCP server on (http://127\.0\.0\.1:(\d+)/mcp)\n")
_TOKEN: Final = re.compile(r"clients send  Authorization: Bearer (\S+)\n")


@dataclass(frozen=True, slots=True)
class HttpServer:
    """A listening server.

    Attributes:
        said: Its stderr output before it listened.
        token: The token printed or configured.
    """

    process: PipedProgram
    url: str
    port: int
    token: str
    said: str

    def requests(self, **headers: str) -> httpx2.AsyncClient:
        """Return an HTTP client that sends the token, with *headers* added or replaced."""
        given = {"authorization": f"Bearer {self.token}", **headers}
        return httpx2.AsyncClient(headers=given, timeout=LIMIT_S)

    @asynccontextmanager
    async def client(
        self, mode: Literal["auto", "legacy"] = "auto", **options: Any
    ) -> AsyncGenerator[Client]:
        """Yield the SDK's client."""
        async with self.requests() as requests:
            transport = streamable_http_client(self.url, http_client=requests)
            async with Client(transport, mode=mode, **options) as client:
                yield client


@asynccontextmanager
async def serving_http(
    api: FakeMessagesApi | None, *options: str, words: tuple[str, ...] = (), **more: str | None
) -> AsyncGenerator[HttpServer]:
    """Start `agent-cli OPTIONS mcp serve --http WORDS` in the current folder."""
    token = more.get("MCP_SERVE_TOKEN") or ""
    with started(*options, "mcp", "serve", "--http", *words, api=api, **more) as process:
        said = await asyncio.to_thread(process.stderr.readline)
        address = _ADDRESS.search(said)
        assert address, said + await asyncio.to_thread(process.stderr.read)
        if not (token or "--token-file" in words):
            said += await asyncio.to_thread(process.stderr.readline)
            printed = _TOKEN.search(said)
            assert printed, said
            token = printed.group(1)
        yield HttpServer(process, address.group(1), int(address.group(2)), token, said)
