"""What the provider asks of a client of the Messages API, whichever finds the credentials."""

from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from agent_cli.providers.transport import OpenReply


class Client(Protocol):
    """A client of one server.

    `WireClient` needs a key; `SdkClient` finds credentials, `CloudClient` those of other clouds.
    """

    @property
    def base_url(self) -> str:
        """The address of the server, for messages."""
        ...

    def post(
        self, parameters: dict[str, Any], *, api_key: str | None
    ) -> AbstractAsyncContextManager[OpenReply]:
        """Send a request and yield the open reply; leaving the block closes the connection.

        Args:
            parameters: Arguments of the SDK's `messages.create`, as `wire.parameters` makes them.
            api_key: Replaces the connection's for this request.

        Raises:
            CallFailed: There was no reply, an error status, or the reply broke off.
        """
        ...

    async def count_tokens(self, parameters: dict[str, Any], *, api_key: str | None) -> int:
        """Return the tokens of a prompt; the server charges nothing for the count.

        Args:
            parameters: Arguments of the SDK's `messages.count_tokens`.
            api_key: Replaces the connection's for this request.

        Raises:
            CallFailed: There was no count.
        """
        ...

    async def aclose(self) -> None:
        """Close the connections that are kept for the next request."""
