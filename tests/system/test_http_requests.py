"""Check whom connections trust, that the certificates are read once, and how long one is kept."""

import asyncio
import os
import ssl
import time
from collections.abc import Sequence
from pathlib import Path

import httpx2
import pytest

from agent_cli.system.http_requests import CheckedTransport, trust
from tests.web.https_server import serve_web


def test_certificates_are_read_once_and_again_once_they_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They used to be read for each server, page and hook: 20 ms of CPU each time."""
    with serve_web(tmp_path, ["docs.example"]) as web:
        monkeypatch.setenv("SSL_CERT_FILE", str(web.authority))

    first, second = trust(is_tls=True), trust(is_tls=True)
    with serve_web(tmp_path, ["docs.example"]) as web:  # of another authority
        os.utime(web.authority, ns=(1, 1))
    third = trust(is_tls=True)

    assert first is second
    before, after = (each.get_ca_certs(binary_form=True) for each in (first, third))
    assert len(before) == len(after) == 1
    assert before != after


def test_connection_without_tls_needs_no_certificates_and_trusts_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere.pem")

    plain = trust(is_tls=False)

    assert plain.get_ca_certs() == []
    assert plain.verify_mode is ssl.CERT_REQUIRED
    with pytest.raises(FileNotFoundError):
        trust(is_tls=True)


async def test_requests_at_once_share_a_hundred_connections() -> None:
    """Each had one of its own, which stayed open."""
    opened: list[asyncio.StreamWriter] = []
    full = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened.append(writer)
        if len(opened) == 100:
            full.set()
        while await reader.read(65_536):
            await full.wait()
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")

    async def allow(_request: httpx2.Request) -> Sequence[str] | None:
        return None

    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=200)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, httpx2.AsyncClient(transport=CheckedTransport(allow), timeout=60) as client:
        await asyncio.gather(*(client.get(url) for _ in range(150)))
        for writer in opened:
            writer.close()

    assert len(opened) == 100


async def test_connection_is_not_used_again_when_its_server_may_be_closing_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Many servers close it after 5 s: a call to an MCP server that arrived just then was lost."""
    opened: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened.append(writer)
        while await reader.read(65_536):
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")

    async def allow(_request: httpx2.Request) -> Sequence[str] | None:
        return None

    started = time.monotonic
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, httpx2.AsyncClient(transport=CheckedTransport(allow)) as client:
        counts: list[int] = []
        for later_s in (0.0, 1.0, 5.5):
            monkeypatch.setattr(time, "monotonic", lambda later=later_s: started() + later)
            await client.get(url)
            counts.append(len(opened))
        for writer in opened:
            writer.close()

    assert counts == [1, 1, 2]
