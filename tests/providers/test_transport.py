"""The HTTP layer of both clients: its limits, its sockets, and the wording of its failures."""

import asyncio
import errno
import gzip
import os
import socket
import ssl
import tracemalloc
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agent_cli.contracts.errors import ModelError
from agent_cli.providers.anthropic.connection import Connection
from agent_cli.providers.retries import RetryPolicy
from agent_cli.providers.transport import (
    OpenReply,
    broken_reply,
    connection_failure,
    http_client,
)
from tests.fakes import LIMIT_S
from tests.providers.asking import asker
from tests.tables import each_row

VARIABLE = "ANTHROPIC_BASE_URL"


def behind(outer: Exception, *reasons: Exception) -> Exception:
    """Return *outer*, caused by the first of *reasons*, caused by the second …"""
    for error, cause in zip((outer, *reasons), reasons, strict=False):
        error.__cause__ = cause
    return outer


def system(number: int) -> OSError:
    """Return asyncio's error for a failed connection, with its wording."""
    return OSError(number, "Connect call failed ('127.0.0.1', 1)")


def tls(name: str, said: str) -> ssl.SSLError:
    """Return an OpenSSL error; some have a name, others only a sentence."""
    fault = ssl.SSLError(1, said)
    fault.reason = name
    return fault


def of_the_system(number: int) -> str:
    return os.strerror(number).lower()


REFUSED, NO_ROUTE, RESET = errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ECONNRESET
AGAIN = "; check the network and ask again"


@each_row(
    ("error", "sentence", "may_have_cost"),
    [
        (httpx2.ConnectTimeout(""), f"no answer from https://x in time{AGAIN}", False),
        (httpx2.ReadTimeout(""), f"no answer from https://x in time{AGAIN}", True),
        (httpx2.ConnectError(""), f"cannot reach https://x (ConnectError){AGAIN}", False),
        (httpx2.ReadError("gone"), f"cannot reach https://x (gone){AGAIN}", True),
        (
            behind(httpx2.ConnectError("failed"), system(errno.EMFILE)),
            f"cannot reach https://x ({of_the_system(errno.EMFILE)}; raise the limit of your shell"
            f" (`ulimit -n`)){AGAIN}",
            False,
        ),
        (
            behind(httpx2.ConnectError("failed"), system(REFUSED)),
            f"cannot reach https://x ({of_the_system(REFUSED)}){AGAIN}",
            False,
        ),
        (
            behind(httpx2.ConnectError(""), socket.gaierror(-2, "Name is NOT known")),
            f"cannot reach https://x (name is not known){AGAIN}",
            False,
        ),
        (
            behind(httpx2.ConnectError(""), OSError("All attempts failed")),
            f"cannot reach https://x (All attempts failed){AGAIN}",
            False,
        ),
        (
            ExceptionGroup("two", [behind(httpx2.ConnectError(""), system(REFUSED))]),
            f"cannot reach https://x ({of_the_system(REFUSED)}){AGAIN}",
            False,
        ),
        (
            behind(httpx2.ConnectError(""), ExceptionGroup("two", [system(NO_ROUTE)])),
            f"cannot reach https://x ({of_the_system(NO_ROUTE)}){AGAIN}",
            False,
        ),
        (
            httpx2.ProxyError("502 Bad Gateway"),
            f"cannot reach https://x (502 Bad Gateway){AGAIN}",
            False,
        ),
        (
            behind(httpx2.ConnectError("failed"), tls("UNEXPECTED_EOF", "[SSL] no")),
            f"no TLS connection to https://x (unexpected eof){AGAIN}",
            False,
        ),
        (
            behind(httpx2.ReadError(""), tls("", "EOF in a record")),
            f"no TLS connection to https://x (eof in a record){AGAIN}",
            True,
        ),
    ],
)
def test_connection_failure_names_its_cause_and_is_retryable(
    error: Exception, sentence: str, *, may_have_cost: bool
) -> None:
    """S1-46, C15: the most informative cause is shown, and whether the call may have cost."""
    failed = connection_failure(error, "https://x", VARIABLE)

    assert str(failed) == sentence
    assert (failed.retryable, failed.kind) == (True, "connection")
    assert failed.error.may_have_cost is may_have_cost


@pytest.mark.parametrize(
    ("variables", "way"),
    [
        ({"HTTPS_PROXY": "http://me:secret@proxy.corp:3128"}, " through the proxy proxy.corp:3128"),
        ({"all_proxy": "proxy.corp"}, " through the proxy proxy.corp"),
        ({"HTTPS_PROXY": "http://proxy.corp:3128", "NO_PROXY": "x"}, ""),
        ({"HTTP_PROXY": "http://proxy.corp:3128"}, ""),
        ({"HTTPS_PROXY": "http://proxy.corp:port"}, ""),
    ],
)
def test_connection_failure_names_the_proxy_without_its_password(
    variables: dict[str, str], way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address is right then, and the user would look for the fault there."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    refused = connection_failure(httpx2.ConnectError("gone"), "https://x", VARIABLE)
    late = connection_failure(httpx2.ConnectTimeout(""), "https://x", VARIABLE)
    no_tls = behind(httpx2.ConnectError("failed"), tls("UNEXPECTED_EOF", "[SSL] no"))
    broken = connection_failure(no_tls, "https://x", VARIABLE)

    assert refused.reason == f"cannot reach https://x{way} (gone)"
    suspect = "the proxy (HTTPS_PROXY, NO_PROXY)" if way else "the network"
    assert str(refused) == f"{refused.reason}; check {suspect} and ask again"
    assert late.reason == f"no answer from https://x{way} in time"
    assert broken.reason == f"no TLS connection to https://x{way} (unexpected eof)"
    assert str(broken) == f"{broken.reason}; check {suspect} and ask again"


def test_proxy_that_wants_a_password_is_not_asked_again() -> None:
    """Half a minute of retries changes nothing, and the advice was to check the proxy."""
    failed = connection_failure(
        httpx2.ProxyError("407 Proxy Authentication Required"), "https://x", VARIABLE
    )

    assert str(failed) == (
        "cannot reach https://x (407 Proxy Authentication Required); set the proxy's user and"
        " password: HTTPS_PROXY=http://USER:PASSWORD@HOST:PORT"
    )
    assert not failed.retryable


def test_circular_exception_causes_are_handled() -> None:
    """Libraries may raise an error from one that it caused."""
    one, other = httpx2.ConnectError(""), ValueError("twisted")
    one.__cause__, other.__context__ = other, one

    assert (
        connection_failure(one, "https://x", VARIABLE).reason == "cannot reach https://x (twisted)"
    )


def test_an_untrusted_certificate_is_not_retried() -> None:
    """Waiting does not help; the message says what to check."""
    distrust = ssl.SSLCertVerificationError(1, "certificate verify failed")
    distrust.verify_message = "self-signed certificate"

    failed = connection_failure(
        behind(httpx2.ConnectError(""), distrust), "https://proxy", VARIABLE
    )

    assert str(failed) == (
        "the certificate of https://proxy is not trusted (self-signed certificate); check"
        " SSL_CERT_FILE, a proxy that inspects TLS, and the clock"
    )
    assert not failed.retryable


def test_server_that_speaks_no_tls_of_ours_is_not_retried() -> None:
    """Half a minute of retries changes nothing."""
    error = behind(httpx2.ConnectError("failed"), system(RESET), tls("WRONG_VERSION", "[SSL] no"))

    failed = connection_failure(error, "https://x", VARIABLE)

    assert str(failed) == (
        "no TLS connection to https://x (wrong version); check ANTHROPIC_BASE_URL, and a proxy in"
        " between"
    )
    assert not failed.retryable


def test_invalid_header_is_not_retried_and_its_value_not_quoted() -> None:
    """Threat 9: the library's own sentence holds the whole header, with the key."""
    error = httpx2.LocalProtocolError("Illegal header value b'Bearer CANARY '")

    failed = connection_failure(error, "http://x", VARIABLE)

    assert not failed.retryable
    assert "CANARY" not in str(failed)


def test_model_error_in_the_transport_is_kept_unchanged() -> None:
    """An exhausted recording, for example, is no network fault."""
    error = ModelError("the recording holds no more")

    failed = connection_failure(error, "https://x", VARIABLE)

    assert (failed.error, failed.retryable) == (error, False)


@each_row(
    ("error", "reason"),
    [
        (httpx2.ReadTimeout("late"), "the reply stopped: nothing for 7.5 s"),
        (httpx2.RemoteProtocolError("peer closed"), "the connection broke in the reply"),
        (httpx2.ReadError("reset"), "the connection broke in the reply (reset)"),
        (httpx2.ReadError(""), "the connection broke in the reply (ReadError)"),
    ],
)
def test_failure_during_a_reply_names_its_cause(error: httpx2.RequestError, reason: str) -> None:
    """C15: an error without a message is named by its type; the request's id is included."""
    failed = broken_reply(error, Connection(read_timeout_s=7.5), "req_1")

    assert (failed.reason, failed.retryable) == (reason, True)
    assert (failed.error.request_id, failed.error.may_have_cost) == ("req_1", True)


async def test_read_timeout_is_configurable_and_connect_timeout_is_short() -> None:
    """C15: an absent server is noticed in seconds, a slow model is waited for."""
    async with http_client(Connection(read_timeout_s=700)) as client:
        limits = client.timeout

    assert limits.read == 700
    assert limits.connect is not None
    assert limits.connect <= 10
    assert limits.write == limits.pool == 60


async def test_finishing_a_reply_does_not_wait_for_the_end_of_the_body() -> None:
    """C15: the reply is complete with its last event; the connection is dropped instead."""

    async def chunks() -> AsyncGenerator[bytes]:
        yield b"\n"
        await asyncio.Event().wait()

    opened = OpenReply(chunks(), "text/event-stream", None)

    await asyncio.wait_for(opened.finish(), LIMIT_S)


@asynccontextmanager
async def server(heard: list[bytes]) -> AsyncGenerator[str]:
    """Answer every request with an empty reply, record its first line, and yield the address."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readline())
        writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"


async def test_tcp_keepalive_detects_a_dead_connection_within_six_minutes() -> None:
    """C15: otherwise only the next prompt would notice; not all systems have the option."""
    async with (
        server([]) as address,
        http_client(Connection()) as client,
        client.stream("GET", address) as response,
    ):
        option = response.extensions["network_stream"].get_extra_info("socket").getsockopt
        is_kept = option(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        tcp = socket.IPPROTO_TCP
        idle, interval = option(tcp, socket.TCP_KEEPIDLE), option(tcp, socket.TCP_KEEPINTVL)
        silence_s = idle + interval * option(tcp, socket.TCP_KEEPCNT)

    assert is_kept
    assert 60 <= silence_s <= 360


@pytest.mark.parametrize(
    ("address", "reads"), [("http://127.0.0.1:1", False), ("https://127.0.0.1:1", True), ("", True)]
)
async def test_certificates_are_read_unless_the_address_is_plain(
    address: str, reads: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """C15: a file that is no certificate is an error as soon as it is read."""
    (tmp_path / "certificates.pem").write_text("none")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificates.pem"))

    with pytest.raises(ModelError, match="certificates") if reads else nullcontext():
        async with http_client(Connection(), address):
            pass


async def test_client_of_a_plain_address_trusts_no_server_with_tls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """C15: it checks certificates, and knows none of those that sign them."""
    used: list[ssl.SSLContext] = []

    class Transport(httpx2.AsyncHTTPTransport):
        def __init__(self, *, verify: ssl.SSLContext, **options: Any) -> None:
            used.append(verify)
            super().__init__(verify=verify, **options)

    monkeypatch.setattr(httpx2, "AsyncHTTPTransport", Transport)

    async with http_client(Connection(), "http://127.0.0.1:1"):
        [trusted] = used

    assert (trusted.verify_mode, trusted.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert trusted.cert_store_stats()["x509"] == 0


@pytest.mark.parametrize("name", ["http_proxy", "ALL_PROXY"])
async def test_proxy_from_the_environment_is_used(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C15: a custom transport would bypass it."""
    heard: list[bytes] = []
    async with server(heard) as address:
        monkeypatch.setenv(name, address)
        async with asker(base_url="http://model.invalid", api_key="k") as it:
            await it.ask()

    assert heard == [b"POST http://model.invalid/v1/messages HTTP/1.1\r\n"]


@asynccontextmanager
async def endless(head: bytes, piece: bytes) -> AsyncGenerator[tuple[str, list[int]]]:
    """Serve *head* and then *piece* without end; yield the address and the bytes sent."""
    sent = [0]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 " + head + b"\r\nconnection: close\r\n\r\n")
            while not writer.is_closing():
                writer.write(piece)
                sent[0] += len(piece)
                await writer.drain()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}", sent


async def test_error_without_an_end_is_read_only_up_to_a_limit() -> None:
    """C15: the status says enough, and the text of a page fills no memory."""
    async with (
        endless(b"404 Not Found", b"gone " * 20_000) as (address, sent),
        asker(base_url=address, api_key="k") as it,
    ):
        asked = await asyncio.wait_for(it.ask(), LIMIT_S)

    assert asked.error is not None
    assert "gone gone" in str(asked.error)
    assert sent[0] < 50_000_000


async def test_packed_error_is_unpacked_only_up_to_a_limit() -> None:
    """C15: 29 kB were unpacked to 20 MB, and copied ten times."""
    page = gzip.compress(b"gone " * 4_000_000)
    head = f"404 Not Found\r\ncontent-encoding: gzip\r\ncontent-length: {len(page)}".encode()
    async with (
        endless(head, page) as (address, _),
        asker(base_url=address, api_key="k") as it,
    ):
        tracemalloc.start()
        asked = await it.ask()
        _, most_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()

    assert "gone gone" in str(asked.error)
    assert most_bytes < 15_000_000


async def test_event_without_an_end_ends_the_call() -> None:
    """C15: it would fill the memory until the time limit."""
    head = b"200 OK\r\ncontent-type: text/event-stream"
    async with (
        endless(head, b"data: " + b"x" * 1_000_000) as (address, _),
        asker(base_url=address, api_key="k", retry=RetryPolicy(max=0)) as it,
    ):
        asked = await asyncio.wait_for(it.ask(), LIMIT_S)

    assert asked.error is not None
    assert "an event of more than 32 MB" in str(asked.error)
