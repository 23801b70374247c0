"""Show the URLs of pages a user is asked to visit, with nothing hidden in them."""

from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

_THIS_MACHINE: Final = ("localhost", "127.0.0.1", "::1")


def web_host(url: str) -> str:
    """Return the host of a web URL; "" for any other text."""
    try:
        parts = urlsplit(url)
        return parts.hostname or "" if parts.scheme in ("http", "https") else ""
    except ValueError:
        return ""


def page_rows(url: str) -> Iterator[str]:
    r"""Yield the rows that show *url* in full, with non-ASCII characters as `\u0430`."""
    host = web_host(url)
    yield f"  {_plain(url)}"
    yield f"  host: {_plain(host)}"
    if not host.isascii() or "xn--" in host:
        yield "  careful: it has letters of another alphabet and may imitate another name"
    if "@" in urlsplit(url).netloc:
        yield "  careful: the text before the @ is not the host it leads to"
    if url.startswith("http:") and host not in _THIS_MACHINE:
        yield "  careful: not encrypted"


def _plain(text: str) -> str:
    shown = text.encode("ascii", "backslashreplace").decode()
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in shown)
