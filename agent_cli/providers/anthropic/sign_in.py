"""Signing in to a cloud without asking a model, for `agent-cli doctor`."""

import asyncio

from agent_cli.providers.anthropic.connection import Connection
from agent_cli.providers.failures import CallFailed


async def credentials_of(connection: Connection) -> str:
    """Return the source of the credentials for the cloud of *connection*.

    Raises:
        ModelError: There are none; the message says how to sign in.
    """
    await asyncio.to_thread(_load)
    from agent_cli.providers.anthropic.clouds.account import signed_in  # loaded just now
    from agent_cli.providers.anthropic.clouds.client import account_of

    try:
        return (await signed_in(account_of(connection), connection.platform)).source
    except CallFailed as failed:
        raise failed.error from failed


def _load() -> None:
    """Import the SDK, which costs over a second."""
    import agent_cli.providers.anthropic.clouds.client  # noqa: F401 # pyright: ignore[reportUnusedImport]
