"""Pages of the web: fetched from servers of the internet only, and their text as Markdown.

In bounded time and size; an address says whose the page is, and answers are kept for a while. HTML
needs the extra `web`.
"""

import asyncio
import re
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import httpx2

from agent_cli.contracts.errors import ToolError
from agent_cli.system.addresses import Resolve, are_inside, is_internal_host, resolve
from agent_cli.system.asked_program import TooMuchOutput, ask_program
from agent_cli.system.http_requests import CheckedTransport, sent_host, why_unreached
from agent_cli.system.records import dataclass
from agent_cli.version import __version__

LIMIT_S: Final = 30.0
_TIMEOUT: Final = httpx2.Timeout(LIMIT_S, connect=LIMIT_S / 3)
BYTES_MAX: Final = 2 * 1024 * 1024
_REDIRECTS_MAX: Final = 5
_KEPT_S: Final = 15 * 60.0
_KEPT_MAX: Final = 20
_HEADERS: Final = {
    # Many sites of documentation answer with the Markdown that their pages are made of.
    "accept": "text/markdown, text/html;q=0.9, text/plain;q=0.8, */*;q=0.1",
    "user-agent": f"agent-cli/{__version__}",
}
_LIKE: Final = "Give one like https://host/path."
_ADDRESS_CHARS_MAX: Final = 2_000
PORT: Final = 443


@dataclass(frozen=True, slots=True)
class PageAddress:
    """The address of a page on an HTTPS server."""

    url: httpx2.URL

    @property
    def host(self) -> str:
        """The server's name in ASCII, in lower case, as permission rules name it."""
        return _host(self.url)

    def joined(self, location: str) -> "PageAddress":
        """Return the address that a redirect to *location* leads to.

        Raises:
            ToolError: It is none of a page.
        """
        try:
            url = self.url.join(location)
        except (httpx2.InvalidURL, ValueError) as error:
            raise ToolError(
                f"{self.url} redirects to {location!r}, which is no address."
            ) from error
        return _checked(url)

    def is_of(self, other: "PageAddress") -> bool:
        """Return whether both are of one server, with or without `www.`."""
        return self.host.removeprefix("www.") == other.host.removeprefix("www.")


def page_address(requested: str) -> PageAddress:
    """Return the address that the model *requested*, with `https`, and without the part behind #.

    Raises:
        ToolError: It is none of a page that is read.
    """
    text = requested.strip()
    try:
        url = httpx2.URL(text if "://" in text else f"https://{text}")
        _host(url).encode("idna")  # a label is empty or too long
    except (httpx2.InvalidURL, ValueError) as error:
        raise ToolError(f"{requested!r} is no address. {_LIKE}") from error
    return _checked(url)


def _checked(url: httpx2.URL) -> PageAddress:
    if url.scheme not in ("http", "https") or not _host(url):
        raise ToolError(f"{str(url)!r} is not the address of a page. {_LIKE}")
    if len(str(url)) > _ADDRESS_CHARS_MAX:
        raise ToolError(f"The address is longer than {_ADDRESS_CHARS_MAX:,} characters. {_LIKE}")
    if url.userinfo:
        raise ToolError(f"The address holds a user name or a password. {_LIKE}")
    if url.port not in (None, 80, PORT):
        raise ToolError(f"{url} names port {url.port}, but only {PORT} is used. {_LIKE}")
    if is_internal_host(_host(url)):
        raise _refusal(_host(url))
    return PageAddress(url.copy_with(scheme="https", port=None, fragment=None))


def _host(url: httpx2.URL) -> str:
    return sent_host(url).rstrip(".")


def _refusal(host: str) -> ToolError:
    return ToolError(
        f"{host} is not a server of the internet, so it is not read. Use bash for a server of this"
        " machine or network; it asks the user."
    )


@dataclass(frozen=True, slots=True)
class Response:
    """The answer of a server.

    Attributes:
        address: Where it was found, behind redirects of the same server.
        media_type: As the server named it, in lower case; "" if it did not.
        charset: As the server named it; "" if it did not.
        is_cut: There is more than `BYTES_MAX`.
        elsewhere: The address on another server that this one redirects to, or "".
    """

    address: PageAddress
    media_type: str = ""
    charset: str = ""
    body: bytes = b""
    is_cut: bool = False
    elsewhere: str = ""


class PageRequests:
    """The requests of one session, and the pages of the last 15 minutes."""

    def __init__(
        self,
        *,
        find: Resolve = resolve,
        listens_at: Callable[[str], tuple[str, int]] | None = None,
        has_rule: Callable[[str], bool] = lambda _host: False,
    ) -> None:
        """Request nothing yet.

        Args:
            find: Returns the addresses of a server's name.
            listens_at: Returns the address and the port to connect to for a checked address.
            has_rule: Returns whether a rule denies a server's name or asks about it.
        """
        self._find = find
        self._listens_at = listens_at
        self._has_rule = has_rule
        self._kept: OrderedDict[str, tuple[float, Response]] = OrderedDict()

    async def get(self, address: PageAddress) -> Response:
        """Return the page at *address*.

        Raises:
            ToolError: There is none, or it is not to be read.
        """
        key = str(address.url)
        at_s, kept = self._kept.get(key, (0.0, None))
        if kept and time.monotonic() - at_s < _KEPT_S:
            return kept
        try:
            async with asyncio.timeout(LIMIT_S):
                response = await self._followed(address)
        except TimeoutError as error:
            raise ToolError(f"{address.host} did not answer in {LIMIT_S:g} s.") from error
        self._kept[key] = (time.monotonic(), response)
        self._kept.move_to_end(key)
        while len(self._kept) > _KEPT_MAX:
            self._kept.popitem(last=False)
        return response

    async def _followed(self, address: PageAddress) -> Response:
        at = address
        for _ in range(_REDIRECTS_MAX + 1):
            found = await self._answer(at)
            if isinstance(found, Response):
                return found
            is_renamed = found.host != address.host
            if not found.is_of(address) or (is_renamed and self._has_rule(found.host)):
                # The user allowed this server, not that one.
                return Response(at, elsewhere=str(found.url))
            at = found
        raise ToolError(f"{address.url} redirects more than {_REDIRECTS_MAX} times.")

    async def _check(self, request: httpx2.Request) -> Sequence[str]:
        addresses = await self._find(_host(request.url))
        if are_inside(addresses):
            raise _refusal(_host(request.url))
        return addresses

    async def _answer(self, address: PageAddress) -> Response | PageAddress:
        """Return the answer of *address*, or the address that it redirects to.

        Raises:
            ToolError: It cannot be asked, or does not answer with a page.
        """
        try:
            return await self._asked(address)
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, OSError) as error:
            raise ToolError(
                f"{address.url} cannot be fetched: {_fault(error, address)}."
            ) from error

    async def _asked(self, address: PageAddress) -> Response | PageAddress:
        transport = CheckedTransport(self._check, listens_at=self._listens_at)
        async with (
            httpx2.AsyncClient(transport=transport, timeout=_TIMEOUT) as client,
            client.stream("GET", address.url, headers=_HEADERS) as answer,
        ):
            if answer.is_redirect and (location := answer.headers.get("location")):
                return address.joined(location)
            if not answer.is_success:
                status = f"{answer.status_code} {answer.reason_phrase}".strip()
                raise ToolError(f"{address.url} answered {status}.")
            body, is_cut = bytearray(), False
            async for piece in answer.aiter_bytes():
                body += piece
                if is_cut := len(body) > BYTES_MAX:
                    break
            media_type, _, _ = answer.headers.get("content-type", "").partition(";")
            return Response(
                address,
                media_type.strip().lower(),
                answer.charset_encoding or "",
                bytes(body[:BYTES_MAX]),
                is_cut,
            )


def _fault(error: Exception, address: PageAddress) -> str:
    """Return why the request to *address* failed, as a clause."""
    match error:
        case httpx2.DecodingError():
            return "the answer is damaged"
        case httpx2.ReadError() | httpx2.RemoteProtocolError():
            return "the connection broke in the answer"
        case httpx2.ReadTimeout():
            return "the answer stopped coming"
        case httpx2.TransportError() | OSError():
            return why_unreached(error, f"https://{address.host}").line
        case _:
            return str(error) or type(error).__name__


_HTML: Final = ("text/html", "application/xhtml+xml")
_TEXTS: Final = re.compile(r"text/.*|application/(.*\+)?(json|xml|yaml|javascript|toml)|")
_CHARSET: Final = re.compile(rb"<meta[^>]{0,200}charset=[\"']?([\w-]+)", re.IGNORECASE)
_PROGRAM: Final = Path(__file__).with_name("page_process.py")
_PARSED_WITHIN_S: Final = 60.0
_MARKDOWN_BYTES_MAX: Final = 4 * BYTES_MAX


async def text_of_page(response: Response) -> str:
    """Return the content of *response*.

    Raises:
        ToolError: It is no text, is damaged, or takes too long to read.
    """
    kind = response.media_type
    if not _TEXTS.fullmatch(kind) and kind not in _HTML:
        raise ToolError(f"{response.address.url} is {kind}, not text, so it is not read.")
    if b"\0" in response.body[:1024] and "utf-16" not in response.charset.lower():
        raise ToolError(f"{response.address.url} is not text, so it is not read.")
    text = _decoded(response)
    if kind in _HTML or (not kind and text.lstrip()[:1] == "<"):
        return await _markdown(text, str(response.address.url))
    return text.strip()


def _decoded(response: Response) -> str:
    declared = _CHARSET.search(response.body[:2048])
    for name in (response.charset, declared[1].decode("ascii") if declared else ""):
        try:
            return response.body.decode(name, errors="replace").removeprefix("\ufeff")
        except (LookupError, UnicodeError):  # no name, or none of an encoding of texts
            continue
    return response.body.decode("utf-8-sig", errors="replace")


async def _markdown(html: str, url: str) -> str:
    """Return the *html* of a stranger as Markdown; see page_process.py.

    Raises:
        ToolError: That takes too long or too much memory, or it is damaged.
    """
    try:
        async with asyncio.timeout(_PARSED_WITHIN_S):
            ran = await ask_program(
                [sys.executable, "-P", str(_PROGRAM), url],
                html.encode(errors="replace"),
                environment={},
                workspace=_PROGRAM.parent,
                output_bytes_max=_MARKDOWN_BYTES_MAX,
            )
    except (TimeoutError, TooMuchOutput):
        pass
    except OSError as error:
        raise ToolError(f"{url} cannot be read: {error}.") from error
    else:
        if not ran.code:
            return ran.stdout
        fault = ran.stderr.rstrip().rpartition("\n")[2]
        if ran.code == 1 and fault != "MemoryError":
            raise ToolError(f"{url} cannot be read: {fault}.")
    raise ToolError(f"{url} takes too much time or memory to be read. Read another page.")
