"""Recognise internal addresses: of this machine, or of a network that is not the internet.

A name that changes its address between the check and the request is not detected.
"""

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, TypeAlias

_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve: TypeAlias = Callable[[str], Awaitable[Sequence[str]]]

# RFC 6052, and RFC 4291 section 2.5.5.1.
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_LOCAL_NAT64: Final = ipaddress.IPv6Network("64:ff9b:1::/48")
_COMPATIBLE: Final = ipaddress.IPv6Network("::/96")


async def resolve(host: str) -> Sequence[str]:
    """Return the addresses of *host*; none when nobody knows it: the request fails by itself."""
    with contextlib.suppress(ValueError):
        return [str(ipaddress.ip_address(host))]  # no name to be looked up
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return ()
    # That of an interface on this machine may name it: fe80::1%eth0.
    return [str(address[0]).partition("%")[0] for *_, address in found]


def are_inside(addresses: Sequence[str]) -> bool:
    """Return whether one of *addresses* is not of the internet."""
    return not all(
        _is_global(each)
        for address in map(ipaddress.ip_address, addresses)
        for each in _reached(address)
    )


def are_of_this_machine(addresses: Sequence[str]) -> bool:
    """Return whether all of *addresses* lead to this machine and nowhere else."""
    return all(ipaddress.ip_address(address).is_loopback for address in addresses)


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
