"""Where `agent-cli mcp` runs: what its commands need of the program around them."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.servers import ServerState
from agent_cli.mcp_client.config import ServerConfig, ServerProblem
from agent_cli.mcp_client.pool import McpServers
from agent_cli.mcp_client.restarts import NO_RESTARTS

# Loading what speaks to servers is not part of their own limits.
_LOADING_S = 5.0
Say: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContext:
    """Where the command runs.

    Attributes:
        configured: The servers of settings and files, read when a command needs them.
        stranger: The workspace if somebody else may have filled it, else None.
        say: Takes one line for the person.
    """

    environment: Mapping[str, str]
    configured: Callable[[], Sequence[ServerConfig | ServerProblem]]
    workspace: Path
    stranger: Path | None
    say: Say

    def server(self, name: str) -> ServerConfig:
        """Return the server of that name.

        Raises:
            UsageError: There is none, or it cannot be used.
        """
        configured = self.configured()
        found = next((each for each in configured if each.name == name), None)
        if found is None:
            known = ", ".join(each.name for each in configured) or "none"
            raise UsageError(f"there is no MCP server {name!r}; there are: {known}")
        if isinstance(found, ServerProblem):
            raise UsageError(found.reason)
        return found


@asynccontextmanager
async def connected(
    environment: Mapping[str, str], configs: Sequence[ServerConfig]
) -> AsyncIterator[McpServers]:
    """Start *configs* once, wait until each is ready or has failed, and end them after."""
    async with McpServers(environment, restarts=NO_RESTARTS) as servers:
        servers.start(configs)
        limit_s = max((each.startup_timeout_s for each in configs), default=0)
        await servers.wait_started(limit_s + _LOADING_S)
        yield servers


def explain(state: ServerState, say: Say) -> None:
    """Say why a server cannot be used, and what its standard error holds beyond the quote."""
    say(state.reason)
    for line in state.unquoted:
        say(f"  │ {line}")
