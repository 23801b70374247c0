"""The settings of subagents; a part of schema.py."""

from typing import Annotated, NamedTuple

from agent_cli.settings.rules import flag, whole


class AgentSettings(NamedTuple):
    """Subagents: how many at once, how many without asking, how deep, and how many rounds."""

    enabled: Annotated[bool, flag()] = True
    max_parallel: Annotated[int, whole(1, 64, "agents")] = 4
    ask_beyond: Annotated[int, whole(0, 64, "agents")] = 3
    max_depth: Annotated[int, whole(1, 8, "levels")] = 2
    max_rounds: Annotated[int, whole(0, 100_000, "rounds")] = 50
