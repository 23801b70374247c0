"""Send HTTP requests as the environment says, and to addresses that were checked.

A name may stand for another address after the check. This is the one place that connects for pages,
MCP servers and hooks of a workspace. Each of them knows which addresses it may reach; this module
does not.
"""

import errno
import functools
import os
import ssl
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, TypeAlias
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2

from agent_cli.system.loading import late_pattern
from agent_cli.system.records import dataclass
from agent_cli.system.shapes import is_group

# Faults of TLS that a broken connection shows, not the kind of server.
_BROKE_OFF = late_pattern("eof|closed|reset|bad record mac|decrypt")
# Of each address but the last to try; the last has the whole limit of the request.
CONNECT_EACH_S: Final = 5.0
# Many servers close an idle connection after 5 s, and lose a request that arrives just then.
IDLE_MAX_S: Final = 4.0
# As the HTTP library has them, but for the last; a limit that is not given is none.
_LIMITS: Final = httpx2.Limits(
    max_connections=100, max_keepalive_connections=20, keepalive_expiry=IDLE_MAX_S
)
FORBIDDEN_HEADER: Final = "a header has a line break or another character that HTTP forbids"

Check: TypeAlias = Callable[[httpx2.Request], Awaitable[Sequence[str] | None]]
"""Returns the addresses that a request may go to, None for any; raises if there must be none."""


class HttpSettingsError(httpx2.TransportError):
    """A proxy or the certificates that the environment names cannot be used; the text says why."""


@contextmanager
def usable_environment() -> Generator[None]:
    """Say in one sentence why the environment's proxies or certificates cannot be used.

    Raises:
        HttpSettingsError: They cannot.
    """
    try:
        yield
    except (httpx2.InvalidURL, ValueError) as error:
        raise HttpSettingsError(
            f"the proxy settings cannot be used: {error}; check HTTPS_PROXY and HTTP_PROXY"
        ) from error
    except ImportError as error:  # the package needed for SOCKS proxies only
        raise HttpSettingsError(
            "a SOCKS proxy needs one more package: pip install socksio, or set another proxy"
        ) from error
    except OSError as error:
        raise HttpSettingsError(
            f"the certificates cannot be read ({error.strerror or error}); check SSL_CERT_FILE and"
            " SSL_CERT_DIR"
        ) from error


def proxy_for(url: str) -> str:
    """Return the URL of the environment's proxy for *url*, "" for none.

    Raises:
        ValueError: *url* is no address.
    """
    to = urlsplit(url)
    proxies = getproxies()
    proxy = proxies.get(to.scheme) or proxies.get("all") or ""
    if not proxy or not to.hostname or proxy_bypass(to.netloc):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def sent_host(url: httpx2.URL) -> str:
    """Return the host of *url* as it is sent.

    Python encodes some international names differently, and so finds other servers.
    """
    return url.raw_host.decode("ascii").lower()


def trust(*, is_tls: bool) -> ssl.SSLContext:
    """Return the certificates that a connection trusts: none without TLS, else the environment's.

    Raises:
        OSError: The certificates cannot be read.
    """
    if not is_tls:  # whatever goes over TLS all the same is refused
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    default = ssl.get_default_verify_paths()
    variables = (default.openssl_cafile_env, default.openssl_capath_env)
    named = [os.environ.get(variable, "") for variable in variables]
    return _certificates(
        tuple(
            (path, _changed_ns(path))
            for path in (*named, default.openssl_cafile, default.openssl_capath)
        )
    )


@functools.lru_cache(maxsize=1)
def _certificates(_read_from: tuple[tuple[str, int], ...]) -> ssl.SSLContext:
    # It takes 20 ms of CPU, for each server, page and hook.
    return httpx2.create_ssl_context()


def _changed_ns(path: str) -> int:
    with suppress(OSError):
        return os.stat(path).st_mtime_ns  # noqa: PTH116 - "" is no path
    return 0


class CheckedTransport(httpx2.AsyncBaseTransport):
    """Checks each request, a redirected one too, and connects to the addresses that were found.

    Each host has connections of its own, because what proves its name is the certificate shown
    when they were opened. Where a proxy of the environment takes the request, the proxy looks the
    name up: the request is checked all the same, and goes to the proxy.
    """

    def __init__(
        self,
        check: Check,
        *,
        listens_at: Callable[[str], tuple[str, int]] | None = None,
    ) -> None:
        """Connect to nothing yet.

        Args:
            check: Called with each request right before it is sent.
            listens_at: Returns the address and port to connect to for a checked address.
        """
        self._check = check
        self._listens_at = listens_at
        # By scheme, and by host or proxy.
        self._transports: dict[tuple[str, str], httpx2.AsyncHTTPTransport] = {}
        self._first: dict[str, str] = {}  # host → the address to try first

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send *request*.

        Raises:
            httpx2.ConnectError: Its host has no address, or none answers.
            HttpSettingsError: A proxy or the certificates of the environment cannot be used.
        """
        checked = await self._check(request)
        if proxy := proxy_for(str(request.url)):
            return await self._transport(request, proxy).handle_async_request(request)
        host = sent_host(request.url)
        transport = self._transport(request)
        if checked is None:
            return await transport.handle_async_request(request)
        if not checked:  # a second look-up might find an address that was not checked
            raise httpx2.ConnectError(f"{host} has no address", request=request)
        *others, last = sorted(checked, key=lambda server: server != self._first.get(host))
        for server in others:
            # A machine without IPv6 cannot reach all of them.
            with suppress(httpx2.ConnectError, httpx2.ConnectTimeout):
                led = self._led_to(server, request, connect_s=CONNECT_EACH_S)
                response = await transport.handle_async_request(led)
                self._first[host] = server
                return response
        self._first[host] = last  # if any, as none of the others answered
        return await transport.handle_async_request(self._led_to(last, request))

    async def aclose(self) -> None:
        """Close all connections."""
        for transport in self._transports.values():
            await transport.aclose()

    def _transport(
        self, request: httpx2.Request, proxy: str | None = None
    ) -> httpx2.AsyncHTTPTransport:
        key = (request.url.scheme, proxy or sent_host(request.url))
        if key not in self._transports:
            is_tls = "https" in (request.url.scheme, urlsplit(proxy or "").scheme)
            with usable_environment():
                self._transports[key] = httpx2.AsyncHTTPTransport(
                    verify=trust(is_tls=is_tls),
                    proxy=proxy,
                    limits=_LIMITS,
                )
        return self._transports[key]

    def _led_to(
        self, server: str, request: httpx2.Request, *, connect_s: float | None = None
    ) -> httpx2.Request:
        """Return *request* for the address *server*; its headers name the host."""
        host, port = self._listens_at(server) if self._listens_at else (server, request.url.port)
        extensions = {**request.extensions, "sni_hostname": sent_host(request.url)}
        if connect_s is not None:
            extensions["timeout"] = {**request.extensions.get("timeout", {}), "connect": connect_s}
        return httpx2.Request(
            request.method,
            request.url.copy_with(host=host, port=port),
            headers=request.headers,
            stream=request.stream,
            extensions=extensions,
        )


_SIGN_IN: Final = "set the proxy's user and password: HTTPS_PROXY=http://USER:PASSWORD@HOST:PORT"


@dataclass(frozen=True, slots=True)
class Unreached:
    """Why a request had no answer.

    Attributes:
        sentence: What happened, with the server and the proxy that led there.
        advice: What to check, or "".
        may_pass: Another try can help.
        is_tls: The connection failed in TLS, not over the certificate.
        is_proxied: A proxy is on the way, which is named in the sentence.
    """

    sentence: str
    advice: str = ""
    may_pass: bool = False
    is_tls: bool = False
    is_proxied: bool = False

    @property
    def line(self) -> str:
        """The sentence with the advice."""
        return "; ".join(filter(None, (self.sentence, self.advice)))


def why_unreached(error: BaseException | None, url: str) -> Unreached:
    """Return why a request to the server at *url* failed with *error*, before an answer."""
    if isinstance(error, HttpSettingsError):
        return Unreached(str(error))
    way = _through(url)
    if isinstance(error, httpx2.TimeoutException):
        sentence = f"no answer from {url}{way} in time"
        return Unreached(sentence, may_pass=True, is_proxied=bool(way))
    why = _reason(error)
    if isinstance(why, ssl.SSLCertVerificationError):
        return Unreached(
            f"the certificate of {url}{way} is not trusted ({why.verify_message})",
            "check SSL_CERT_FILE, a proxy that inspects TLS, and the clock",
        )
    if isinstance(why, ssl.SSLError):
        fault = (why.reason or str(why)).replace("_", " ").lower()
        # Else the other side speaks no TLS, or no version or cipher of ours: waiting is useless.
        is_broken = isinstance(why, ssl.SSLEOFError) or bool(_BROKE_OFF.search(fault))
        sentence = f"no TLS connection to {url}{way} ({fault})"
        return Unreached(sentence, may_pass=is_broken, is_tls=True, is_proxied=bool(way))
    sentence = f"cannot reach {url}{way} ({reason_of(error)})"
    if isinstance(error, httpx2.ProxyError) and str(error).startswith("407"):
        return Unreached(sentence, _SIGN_IN, is_proxied=True)
    return Unreached(sentence, may_pass=True, is_proxied=bool(way))


def why_unanswered(error: BaseException, url: str) -> Unreached:
    """Return why a request to the server at *url* failed, before or in its answer."""
    match error:
        case httpx2.LocalProtocolError():
            # Its text holds the whole header, e.g. a token with a line break in it.
            return Unreached(FORBIDDEN_HEADER, "correct it")
        case (
            httpx2.ReadError()
            | httpx2.WriteError()
            | httpx2.RemoteProtocolError()
            | httpx2.DecodingError()
        ):
            return Unreached(f"{url} gave no whole answer ({reason_of(error)})", "correct it")
        case _:
            return why_unreached(error, url)


def reason_of(error: BaseException | None) -> str:
    """Return why a request failed, in a few words: the system's, if it has some."""
    why = _reason(error)
    return _of_system(why) or str(why).rstrip(".") or type(why).__name__


def _through(url: str) -> str:
    """Return the words for the proxy, without its password, that leads to *url*, or ""."""
    try:
        proxy = proxy_for(url)
        if not proxy:
            return ""
        way = urlsplit(proxy)
        port = "" if way.port is None else f":{way.port}"
    except ValueError:  # no address at all, and reported as such
        return ""
    return f" through the proxy {way.hostname}{port}"


def _reason(error: BaseException | None) -> BaseException | None:
    """Return the most informative cause of *error*: a TLS error, else a system error."""
    chain = [error] if error else []
    while chain and (cause := chain[-1].__cause__ or chain[-1].__context__) and cause not in chain:
        # Several addresses were tried: report one of them.
        chain.append(cause.exceptions[0] if is_group(cause) else cause)
    of_tls = [each for each in chain if isinstance(each, ssl.SSLError)]
    of_system = [each for each in chain if _of_system(each)]
    return next((each for each in (*of_tls, *of_system, *chain) if str(each)), error)


def _of_system(error: BaseException | None) -> str:
    """Return the system's message for *error*, or ""; asyncio words its errors differently."""
    if not isinstance(error, OSError) or not error.errno:
        return ""
    is_number = error.errno > 0  # other numbers are those of name resolution
    message = (os.strerror(error.errno) if is_number else str(error.strerror)).lower()
    is_full = error.errno in (errno.EMFILE, errno.ENFILE)
    return f"{message}; raise the limit of your shell (`ulimit -n`)" if is_full else message
