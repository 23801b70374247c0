"""The REPL's ports to the MCP servers."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from agent_cli.contracts.servers import ServerPrompt, ServerResource, ServerState, ServerStates
from agent_cli.contracts.timeline import Block

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
        """Return the prompts of all servers, keyed by command."""
        ...

    def resources(self) -> Sequence[ServerResource]:
        """Return the resources of all servers, by server and URI."""
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
