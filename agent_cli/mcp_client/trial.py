"""Start servers once to test them, for `agent-cli mcp` and `doctor`."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from agent_cli.contracts.servers import ServerPhase, ServerState
from agent_cli.mcp_client.config import ServerConfig
from agent_cli.mcp_client.limits import NO_RESTARTS
from agent_cli.mcp_client.pool import McpServers

# The limits of the servers do not include the time to import the SDK.
_LOADING_S = 5.0


def _ignore(_settled: int) -> None:
    """Ignore the count."""


@asynccontextmanager
async def connected(
    environment: Mapping[str, str],
    configs: Sequence[ServerConfig],
    on_settled: Callable[[int], None] = _ignore,
) -> AsyncGenerator[McpServers]:
    """Start *configs* once, wait until each is ready or has failed, and end them on exit.

    Args:
        environment: Inherited by stdio servers, without our own secrets.
        configs: The servers.
        on_settled: Called with the number of servers that are ready or have failed.
    """
    settled: set[str] = set()

    def note(state: ServerState) -> None:
        if state.phase is not ServerPhase.CONNECTING:
            settled.add(state.name)
            on_settled(len(settled))

    async with McpServers(environment, restarts=NO_RESTARTS, on_change=note) as servers:
        servers.start(configs)
        limit_s = max((each.startup_timeout_s for each in configs), default=0)
        await servers.wait_started(limit_s + _LOADING_S)
        yield servers
