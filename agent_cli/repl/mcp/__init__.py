"""MCP servers in the REPL: its ports to them, and their words as untrusted text.

Invisible characters of a server appear as escapes, and no row can pass for one of this program.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Final, Protocol, TypeAlias
from urllib.parse import urlsplit

from agent_cli.contracts.servers import ServerPrompt, ServerResource, ServerState, ServerStates
from agent_cli.contracts.timeline import Block
from agent_cli.contracts.wording import one_line
from agent_cli.system.sanitize import reveal

Visit: TypeAlias = Callable[[str], Awaitable[str | None]]
"""Show the user a sign-in page. Returns the final URL of the browser if the user pasted it, or None
if the browser returns by itself, which cancels the call."""


class ServerRequests(Protocol):
    """Port for requests to one server."""

    async def get_prompt(self, name: str, arguments: Mapping[str, str]) -> Sequence[Block]:
        """Return a prompt with its arguments, as the content of a user's message.

        Raises:
            ToolError: The server is not there, or refused.
        """
        ...

    async def read_resource(self, uri: str) -> Sequence[Block]:
        """Return a resource's content.

        Raises:
            ToolError: The server is not there, or refused.
        """
        ...

    async def complete(
        self, name: str, argument: str, value: str, known: Mapping[str, str]
    ) -> Sequence[str]:
        """Return completions of an argument that begin with *value*; none if unsupported.

        Args:
            name: The name of a prompt, or the URI of a resource template.
            argument: The name of the argument.
            value: The text typed so far.
            known: The other arguments given so far.
        """
        ...


class ServersPort(ServerStates, Protocol):
    """Port to the MCP servers of this program."""

    def prompts(self) -> Sequence[ServerPrompt]:
        """Return the prompts of all servers, ordered by command."""
        ...

    def resources(self) -> Sequence[ServerResource]:
        """Return the resources of all servers, ordered by server and URI."""
        ...

    def requests(self, server: str) -> ServerRequests:
        """Return the request port of *server*.

        Raises:
            UsageError: There is no such server, or it was not started.
        """
        ...

    def changes(self) -> Mapping[str, Mapping[str, str]]:
        """Return server → tool → diff of the changes since the user's approval."""
        ...

    async def approve_changes(self, server: str) -> None:
        """Approve a server's changed tools as they are now.

        Raises:
            UsageError: There is no such server.
        """
        ...

    async def login(self, name: str, visit: Visit) -> ServerState:
        """Sign in to an HTTP server, connect, and return its state.

        Raises:
            UsageError: There is no such server, or it is not an HTTP server.
        """
        ...

    async def logout(self, name: str) -> bool:
        """Delete the sign-in to a server; return whether there was one.

        Raises:
            AgentCliError: There is no such server, it is not an HTTP server, or it failed.
        """
        ...

    async def enable(self, name: str) -> ServerState:
        """Switch a server on in this workspace, permanently, and start it; return its state.

        Raises:
            AgentCliError: There is no such server, or that cannot be remembered.
        """
        ...

    async def disable(self, name: str) -> None:
        """Switch a server off in this workspace, permanently, and stop it.

        Raises:
            AgentCliError: There is no such server, or that cannot be remembered.
        """
        ...

    async def reconnect(self, name: str) -> ServerState:
        """Reconnect to a server and return its state.

        Raises:
            UsageError: There is no such server.
        """
        ...


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
