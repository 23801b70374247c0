"""The address of a page: which are read, whose each is, and where its server may be."""

from collections.abc import Sequence
from typing import Final
from urllib.request import getproxies, proxy_bypass

import httpx2

from agent_cli.contracts.errors import ToolError
from agent_cli.system.addresses import Resolve, are_inside, is_internal_host
from agent_cli.system.records import dataclass

_LIKE: Final = "Give one like https://host/path."
_CHARS_MAX: Final = 2_000
PORT: Final = 443


@dataclass(frozen=True, slots=True)
class PageAddress:
    """The address of a page on an HTTPS server."""

    url: httpx2.URL

    @property
    def host(self) -> str:
        """The server's name in ASCII, in lower case, as permission rules name it."""
        return _host(self.url)

    @property
    def is_by_proxy(self) -> bool:
        """Whether a proxy of the environment sends the request, and so looks the name up."""
        proxies = getproxies()
        return bool({"https", "all"} & proxies.keys()) and not proxy_bypass(self.host)

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

    async def servers(self, resolve: Resolve) -> Sequence[str]:
        """Return the checked addresses of the server, so that its name is not looked up again.

        There are none for a server that the proxy of the environment finds.

        Raises:
            ToolError: It is not on the internet, or cannot be found.
        """
        addresses = await resolve(self.host)
        if are_inside(addresses):
            raise _refusal(self.host)
        if self.is_by_proxy:
            return ()
        if not addresses:
            raise ToolError(f"The server {self.host} cannot be found. Check the address.")
        return addresses


def page_address(given: str) -> PageAddress:
    """Return the address *given* by the model; `http` becomes `https`, and the part behind # goes.

    Raises:
        ToolError: It is none of a page that is read.
    """
    text = given.strip()
    try:
        url = httpx2.URL(text if "://" in text else f"https://{text}")
        _host(url).encode("idna")  # a label is empty or too long
    except (httpx2.InvalidURL, ValueError) as error:
        raise ToolError(f"{given!r} is no address. {_LIKE}") from error
    return _checked(url)


def _checked(url: httpx2.URL) -> PageAddress:
    if url.scheme not in ("http", "https") or not _host(url):
        raise ToolError(f"{str(url)!r} is not the address of a page. {_LIKE}")
    if len(str(url)) > _CHARS_MAX:
        raise ToolError(f"The address is longer than {_CHARS_MAX:,} characters. {_LIKE}")
    if url.userinfo:
        raise ToolError(f"The address holds a user name or a password. {_LIKE}")
    if url.port not in (None, 80, PORT):
        raise ToolError(f"{url} names port {url.port}, but only {PORT} is used. {_LIKE}")
    if is_internal_host(_host(url)):
        raise _refusal(_host(url))
    return PageAddress(url.copy_with(scheme="https", port=None, fragment=None))


def _host(url: httpx2.URL) -> str:
    # As it is sent: Python encodes some international names differently, and so finds others.
    return url.raw_host.decode("ascii").lower().rstrip(".")


def _refusal(host: str) -> ToolError:
    return ToolError(
        f"{host} is not a server of the internet, so it is not read. Use bash for a server of this"
        " machine or network; it asks the user."
    )
