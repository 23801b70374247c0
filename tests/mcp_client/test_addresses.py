"""Addresses to which a server may redirect us, and those to which it may not."""

import asyncio
import socket
from collections.abc import Sequence
from pathlib import Path

import httpx2
import pytest
from mcp.client.auth import OAuthFlowError

from agent_cli.mcp_client.config import OAuth, ServerConfig
from agent_cli.mcp_client.web_client import Addresses, SafeAsyncClient
from agent_cli.system import http_requests
from tests.tables import each_row
from tests.web.https_server import Answer, serve_web

NAMES = {
    "mcp.example": ["8.8.8.8", "2001:4860:4860::8888"],
    "id.example": ["8.8.4.4"],
    "half.example": ["8.8.4.4", "10.0.0.1"],
    "intranet": ["10.0.0.1"],
    "localhost": ["::1", "127.0.0.1"],
    "0x7f.1": ["127.0.0.1"],
    "nowhere.example": [],
}
INSIDE = ("127.0.0.1", "169.254.169.254", "192.168.1.1", "[::1]", "[::ffff:7f00:1]", "[fe80::1]")
# IPv6 addresses that lead to 127.0.0.1 and 10.0.0.1: NAT64, 6to4, Teredo, compatible.
INNER = (
    *("[64:ff9b::7f00:1]", "[64:ff9b::a00:1]", "[2002:7f00:1::]", "[2002:a00:1::1]", "[::a00:1]"),
    *("[2001:0:4136:e378:8000:63bf:f5ff:fffe]", "[64:ff9b:1::a00:1]"),
)

NOWHERE = "http://127.0.0.1:9"


async def resolve(host: str) -> Sequence[str]:
    return NAMES.get(host, [host])


def addresses(url: str, issuer: str = "") -> Addresses:
    oauth = OAuth(issuer=issuer)
    return Addresses(ServerConfig(name="web", transport="http", url=url, oauth=oauth), resolve)


@each_row("host", [*INSIDE, *INNER, "localhost", "0x7f.1", "intranet", "half.example"])
async def test_public_server_may_not_lead_to_internal_addresses(host: str) -> None:
    """Threat 18: its sign-in metadata may name a service of this machine."""
    with pytest.raises(OAuthFlowError, match=r"mcp\.example leads to .* oauth\.issuer"):
        await addresses("https://mcp.example/").check(httpx2.Request("GET", f"http://{host}/"))


@each_row(
    ("server", "issuer", "asked"),
    [
        ("https://mcp.example/mcp", "", "https://id.example/token"),
        ("https://mcp.example/mcp", "", "https://nowhere.example/token"),
        ("https://mcp.example/mcp", "https://intranet/", "https://intranet/token"),
        ("http://127.0.0.1:1/mcp", "", "http://10.0.0.1/token"),
        ("http://intranet/mcp", "", "http://intranet/token"),
    ],
)
async def test_public_configured_and_equally_private_addresses_are_allowed(
    server: str, issuer: str, asked: str
) -> None:
    """A server in the user's network signs in there; an unknown name fails by itself."""
    await addresses(server, issuer).check(httpx2.Request("GET", asked))


async def test_host_names_are_looked_up_by_the_system_resolver() -> None:
    """A server on this machine may use any name of this machine."""
    here = Addresses(ServerConfig(name="web", transport="http", url="http://127.0.0.1:1/mcp"))

    await here.check(httpx2.Request("GET", "http://localhost:2/token"))


async def test_international_name_is_looked_up_as_the_request_sends_it() -> None:
    """Python's own codec makes "fass" of it: the name of another machine."""
    asked: list[str] = []

    async def note(host: str) -> Sequence[str]:
        asked.append(host)
        return ["8.8.8.8"]

    public = Addresses(ServerConfig(name="web", transport="http", url="https://mcp.example"), note)
    await public.check(httpx2.Request("GET", "https://faß.example/"))

    assert asked == ["xn--fa-hia.example"]


async def test_redirect_to_a_host_that_cannot_be_a_name_is_refused() -> None:
    """The error of the encoding would end the connection, and with it other calls."""

    async def encode(host: str) -> Sequence[str]:
        host.encode("idna")
        return []

    public = Addresses(
        ServerConfig(name="web", transport="http", url="https://mcp.example"), encode
    )
    with pytest.raises(OAuthFlowError, match=r"leads to a\.\.b, which is no name"):
        await public.check(httpx2.Request("GET", "http://a..b/"))


@pytest.mark.parametrize("url", ["https://id.example/token", "http://ID.example.:8080/"])
async def test_host_that_a_rule_denies_is_not_led_to(url: str) -> None:
    """Redirects and sign-in metadata name hosts that the user never saw."""
    config = ServerConfig(
        name="web",
        transport="http",
        url="https://mcp.example",
        host_objection=lambda host, _port: "a rule denies it" if host == "id.example" else "",
    )
    public = Addresses(config, resolve)

    await public.check(httpx2.Request("GET", "https://mcp.example/"))
    with pytest.raises(OAuthFlowError, match=r"mcp\.example leads to id\.example.*: a rule denies"):
        await public.check(httpx2.Request("GET", url))


@pytest.mark.parametrize(
    ("url", "port"),
    [("http://id.example/", 80), ("https://id.example/", 443), ("https://id.example:8443/", 8443)],
)
async def test_rules_about_a_port_see_the_one_that_is_connected(url: str, port: int) -> None:
    config = ServerConfig(
        name="web",
        transport="http",
        url="https://mcp.example",
        host_objection=lambda _host, seen: "a rule denies it" if seen == port else "",
    )

    with pytest.raises(OAuthFlowError, match="a rule denies it"):
        await Addresses(config, resolve).check(httpx2.Request("GET", url))


async def test_redirect_into_the_internal_network_is_not_followed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Threat 18: the second request is never sent."""
    sent: list[str] = []

    async def answer(_self: object, request: httpx2.Request) -> httpx2.Response:
        sent.append(request.url.host)
        return httpx2.Response(307, headers={"location": "http://169.254.169.254/latest"})

    monkeypatch.setattr(httpx2.AsyncHTTPTransport, "handle_async_request", answer)
    async with SafeAsyncClient({}, None, addresses("https://mcp.example/mcp")) as client:
        with pytest.raises(OAuthFlowError):
            await client.post("https://mcp.example/mcp", follow_redirects=True)

    assert sent == ["mcp.example"]


async def test_request_goes_to_the_address_that_was_checked_and_to_no_later_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threat 18: a name of the attacker's is public when it is looked at, and internal afterwards.

    Here the name is known to the check alone: who looks it up again finds nothing.
    """

    async def find(_host: str) -> Sequence[str]:
        return ["127.0.0.3", "127.0.0.1"]  # nobody listens at the first

    config = ServerConfig(name="web", transport="http", url="http://127.0.0.1:1/mcp")
    with serve_web(tmp_path, ["id.example"]) as web:
        monkeypatch.setenv("SSL_CERT_FILE", str(web.authority))
        web.answers["/token"] = Answer(b"{}")
        async with SafeAsyncClient({}, None, Addresses(config, find)) as client:
            response = await client.get(f"https://id.example:{web.port}/token")
            # At the same address, where a connection is open; but its certificate names another.
            with pytest.raises(httpx2.ConnectError, match="certificate"):
                await client.get(f"https://other.example:{web.port}/token")

        assert response.status_code == 200
        assert str(response.request.url) == f"https://id.example:{web.port}/token"
        assert web.requests == [(f"id.example:{web.port}", "/token")]


async def test_host_without_an_address_is_not_looked_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threat 18: an attacker's name gets its internal address after it was looked up."""

    async def find(host: str) -> Sequence[str]:
        return ["8.8.8.8"] if host == "mcp.example" else []

    config = ServerConfig(name="web", transport="http", url="https://mcp.example/mcp")
    with serve_web(tmp_path, ["localhost"]) as web:
        monkeypatch.setenv("SSL_CERT_FILE", str(web.authority))
        async with SafeAsyncClient({}, None, Addresses(config, find)) as client:
            with pytest.raises(httpx2.ConnectError, match="localhost has no address"):
                await client.get(f"https://localhost:{web.port}/token")

        assert web.requests == []


async def test_address_that_does_not_answer_is_left_soon_and_tried_last_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request that opened a connection waited 30 seconds for the first address."""
    led: list[str] = []
    send = httpx2.AsyncHTTPTransport.handle_async_request

    async def note(self: httpx2.AsyncHTTPTransport, request: httpx2.Request) -> httpx2.Response:
        led.append(request.url.host)
        return await send(self, request)

    async def find(_host: str) -> Sequence[str]:
        return ["127.0.0.7", "127.0.0.1"]

    monkeypatch.setattr(http_requests, "CONNECT_EACH_S", 0.5)
    monkeypatch.setattr(httpx2.AsyncHTTPTransport, "handle_async_request", note)
    config = ServerConfig(name="web", transport="http", url="http://127.0.0.1:1/mcp")
    with serve_web(tmp_path, ["id.example"]) as web, socket.socket() as silent:
        monkeypatch.setenv("SSL_CERT_FILE", str(web.authority))
        web.answers["/token"] = Answer(b"{}")
        silent.bind(("127.0.0.7", web.port))
        silent.listen(0)
        with socket.create_connection(("127.0.0.7", web.port)):  # It takes no second one.
            async with SafeAsyncClient({}, None, Addresses(config, find)) as client:
                for _ in range(2):
                    await client.get(f"https://id.example:{web.port}/token")

    assert led == ["127.0.0.7", "127.0.0.1", "127.0.0.1"]


@pytest.mark.parametrize(
    "proxies",
    [{"http_proxy": NOWHERE}, {"https_proxy": NOWHERE, "no_proxy": "other.example, .id.example"}],
)
async def test_request_that_no_proxy_takes_goes_to_the_checked_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proxies: dict[str, str]
) -> None:
    """Threat 18: a proxy for http alone, or for other hosts, turned the pinning off for all."""

    async def find(_host: str) -> Sequence[str]:
        return ["127.0.0.1"]

    config = ServerConfig(name="web", transport="http", url="http://127.0.0.1:1/mcp")
    with serve_web(tmp_path, ["id.example"]) as web:
        monkeypatch.setenv("SSL_CERT_FILE", str(web.authority))
        for name, value in proxies.items():
            monkeypatch.setenv(name, value)
        async with SafeAsyncClient({}, None, Addresses(config, find)) as client:
            await client.get(f"https://id.example:{web.port}/token")

        assert web.requests == [(f"id.example:{web.port}", "/token")]


async def test_request_that_a_proxy_takes_is_checked_and_goes_to_the_proxy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The proxy looks the name up, maybe where this machine cannot; rules hold all the same."""
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readline())
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as proxy:
        port = proxy.sockets[0].getsockname()[1]
        monkeypatch.setenv("all_proxy", f"127.0.0.1:{port}")
        async with SafeAsyncClient({}, None, addresses("https://mcp.example/mcp")) as client:
            await client.get("http://nowhere.example/token")
            with pytest.raises(OAuthFlowError, match="inside your own network"):
                await client.get("http://intranet/token")

    assert heads == [b"GET http://nowhere.example/token HTTP/1.1\r\n"]
