"""Where `agent-cli mcp` runs: what its commands need of the program around them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

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
