"""Where `agent-cli mcp` runs: what its commands need of the program around them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from agent_cli.errors import UsageError
from agent_cli.mcp_client.config import ServerConfig, ServerProblem

Say: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Where the command runs.

    Attributes:
        configured: The servers of settings and files, read when a command needs them.
        say: Takes one line for the person.
    """

    environment: Mapping[str, str]
    configured: Callable[[], Sequence[ServerConfig | ServerProblem]]
    workspace: Path
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
