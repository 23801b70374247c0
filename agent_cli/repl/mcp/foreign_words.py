"""Display text of servers as untrusted: marked, and with nothing hidden in it.

Invisible characters appear as escapes, and no row can pass for one of this program.
"""

from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import urlsplit

from agent_cli.contracts.timeline import Block
from agent_cli.contracts.wording import one_line
from agent_cli.terminal.sanitize import reveal

_SHOWN_CHARS_MAX: Final = 4_000


def named(server: str) -> str:
    """Return the name of a server for a sentence."""
    return f"MCP server {one_line(reveal(server))}"


def quoted_rows(text: str, who: str = "") -> Iterator[str]:
    """Yield marked rows of untrusted text; very long text is cut with a note."""
    mark = f"  {reveal(who)} │ " if who else "  │ "
    for row in reveal(text[:_SHOWN_CHARS_MAX]).splitlines():
        yield f"{mark}{row}"
    if (left_out := len(text) - _SHOWN_CHARS_MAX) > 0:
        yield f"{mark}… and {left_out:,} more characters"


def shown_text(blocks: Sequence[Block]) -> str:
    """Return the content of blocks: their texts, and a label for any other block."""
    texts = [block.get("text") for block in blocks]
    return "\n".join(
        text if isinstance(text, str) else f"[{block.get('type')}]"
        for text, block in zip(texts, blocks, strict=True)
    )


# Show the URLs of pages a user is asked to visit, with nothing hidden in them.

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
