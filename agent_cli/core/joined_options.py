"""Merge options that a caller may set in one of two places."""

from dataclasses import replace
from typing import Any

from agent_cli.contracts.errors import AgentCliError
from agent_cli.core.loop_config import LoopConfig


def joined(config: LoopConfig, where: str, **given: object) -> LoopConfig:
    """Return *config* with the options of *given* that are set; a default counts as not set.

    Raises:
        AgentCliError: An option is set in *config* and, to another value, in *where*.
    """
    unset, chosen = LoopConfig(), dict[str, Any]()  # Any: every field has its own type
    for name, value in given.items():
        here, default = getattr(config, name), getattr(unset, name)
        if value in (default, here):
            continue
        if here != default:
            raise AgentCliError(f"{name} is set in LoopConfig and in {where}: set it in one")
        chosen[name] = value
    return replace(config, **chosen)
