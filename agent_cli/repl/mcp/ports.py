"""What the REPL needs of the MCP servers of the program behind it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from agent_cli.contracts.servers import ServerPrompt, ServerResource, ServerState, ServerStates
from agent_cli.contracts.timeline import Block

Visit: TypeAlias = Callable[[str], Awaitable[str | None]]
"""Take the person to a sign-in page. Returns the address the browser ended at when they pasted it,
or None when the browser comes back by itself. Cancelled when it did."""


class ServerRequests(Protocol):
    """What can be asked of one server."""

    async def get_prompt(self, name: str, arguments: Mapping[str, str]) -> Sequence[Block]:
        """Return a prompt filled in, as the content of a user's message.

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
        """Return values of an argument that begin with *value*; none when nobody can say.

        Args:
            name: A prompt's name, or the address of a resource template.
            argument: Which of its arguments.
            value: What was typed of it.
            known: The other arguments so far.
        """
        ...


class ServersPort(ServerStates, Protocol):
    """The MCP servers of this program."""

    def prompts(self) -> Sequence[ServerPrompt]:
        """Return the prompts of all servers, by command."""
        ...

    def resources(self) -> Sequence[ServerResource]:
        """Return the resources of all servers, by server and address."""
        ...

    def requests(self, server: str) -> ServerRequests:
        """Return what can be asked of *server*.

        Raises:
            UsageError: There is no such server, or it was not started.
        """
        ...

    def changes(self) -> Mapping[str, Mapping[str, str]]:
        """Return server → tool → a diff of what changed since the person approved it."""
        ...

    async def approve_changes(self, server: str) -> None:
        """Offer a server's changed tools again, as they are now.

        Raises:
            UsageError: There is no such server.
        """
        ...

    async def login(self, name: str, visit: Visit) -> ServerState:
        """Sign in to a server of the web, connect, and return its state.

        Raises:
            UsageError: There is no such server, or it is none of the web.
        """
        ...

    async def logout(self, name: str) -> bool:
        """Forget the sign-in to a server; return whether there was one.

        Raises:
            AgentCliError: There is no such server, it is none of the web, or it did not work.
        """
        ...

    async def enable(self, name: str) -> ServerState:
        """Start a server that is off, from now on in this workspace; return its state.

        Raises:
            AgentCliError: There is no such server, or that cannot be remembered.
        """
        ...

    async def disable(self, name: str) -> None:
        """Stop a server, from now on in this workspace.

        Raises:
            AgentCliError: There is no such server, or that cannot be remembered.
        """
        ...

    async def reconnect(self, name: str) -> ServerState:
        """Connect to a server anew and return its state.

        Raises:
            UsageError: There is no such server.
        """
        ...
