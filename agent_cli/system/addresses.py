"""Read the names of hosts; recognise addresses of this machine and of networks inside.

A name may change its address after the check: connect to the addresses that were checked.
"""

import asyncio
import contextlib
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, TypeAlias

_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve: TypeAlias = Callable[[str], Awaitable[Sequence[str]]]

HTTP_PORT, HTTPS_PORT, SSH_PORT = 80, 443, 22
_LABEL: Final = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
# The last label begins with a letter: "127.1" and "2130706433" are addresses to some programs.
_NAME: Final = re.compile(rf"(?=.{{1,253}}\Z)(?:{_LABEL}\.)+(?=[a-z]){_LABEL}")
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}")
_PORT_MAX: Final = 65_535
_SHOWN_CHARS: Final = 80

# RFC 4291 section 2.4, RFC 9637, RFC 6052, and RFC 4291 section 2.5.5.1.
_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
_DOCUMENTATION: Final = ipaddress.IPv6Network("3fff::/20")
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
# RFC 5214 section 6.1: the middle of an address that ends in one of IPv4.
_ISATAP: Final = (0x0000_5EFE, 0x0200_5EFE)
_COMPATIBLE: Final = ipaddress.IPv6Network("::/96")

# Names that no public server has: RFC 2606, 6761, 6762, 8375, and what routers and clouds use.
_INTERNAL: Final = (
    ".localhost", ".local", ".internal", ".home.arpa", ".lan", ".corp", ".home", ".test"
)  # fmt: skip


class BadHostError(ValueError):
    """A text names no host on the internet; the message says why."""


async def resolve(host: str) -> Sequence[str]:
    """Return the addresses of *host*; none if it cannot be resolved: the request then fails too."""
    with contextlib.suppress(ValueError):
        return [str(ipaddress.ip_address(host))]  # already an address
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return ()
    # A link-local address may end in the name of an interface: fe80::1%eth0.
    return [str(address[0]).partition("%")[0] for *_, address in found]


def are_inside(addresses: Sequence[str]) -> bool:
    """Return whether one of *addresses* is not a public internet address."""
    return not all(
        _is_global(each)
        for address in map(ipaddress.ip_address, addresses)
        for each in _reached(address)
    )


def is_internal_host(host: str) -> bool:
    """Return whether the lowercase *host* is an internal address or a name of internal servers."""
    try:
        return are_inside([str(ipaddress.ip_address(host))])
    except ValueError:
        # Systems read 0x7f.1 and 2130706433 as addresses; no name of the internet ends so.
        last = host.rpartition(".")[2]
        is_number = last.isdecimal() or last.startswith("0x")
        return is_number or "." not in host or host.endswith(_INTERNAL)


def are_of_this_machine(addresses: Sequence[str]) -> bool:
    """Return whether all of *addresses* are loopback addresses of this machine."""
    return all(ipaddress.ip_address(address).is_loopback for address in addresses)


def parse_authority(text: str, *, default: int | None = None) -> tuple[str, int]:
    """Return the host and the port of *text*; *default* is the port that may be left out.

    Raises:
        BadHostError: It is no name of a host on the internet, or no port.
    """
    host, colon, written = text.partition(":")
    if not colon and default is not None:
        return _parse_host(host), default
    if not _PORT.fullmatch(written) or int(written) > _PORT_MAX:
        raise BadHostError(f"{text[:_SHOWN_CHARS]!r} is not a host and a port")
    return _parse_host(host), int(written)


def _parse_host(text: str) -> str:
    name = text.lower() if text.isascii() else ""
    if not _NAME.fullmatch(name) or is_internal_host(name):
        raise BadHostError(
            f"{text[:_SHOWN_CHARS]!r} is not the name of a host on the internet; addresses are not"
            " passed on"
        )
    return name


def _is_global(address: _Address) -> bool:
    # Python 3.11 counts multicast, site-local and unassigned addresses as public.
    if isinstance(address, ipaddress.IPv4Address):
        return address.is_global and not address.is_multicast
    is_public = address in _UNICAST and address not in _DOCUMENTATION and address.is_global
    return is_public or address in _NAT64


def _reached(address: _Address) -> Iterator[_Address]:
    """Yield *address* and the IPv4 addresses embedded in it, if it is an IPv6 address."""
    if isinstance(address, ipaddress.IPv4Address):
        yield address
        return
    inner = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    is_isatap = int(address) >> 32 & 0xFFFF_FFFF in _ISATAP
    if address in _NAT64 or address in _COMPATIBLE or is_isatap:
        inner.append(ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF))
    found = [each for each in inner if each is not None]
    yield from found
    if address.ipv4_mapped is None:
        yield address
