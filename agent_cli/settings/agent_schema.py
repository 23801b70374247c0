"""The settings of subagents; a part of schema.py."""

from typing import Annotated, NamedTuple

from agent_cli.settings.rules import SettingRule, flag, lower_limit, lower_limit_but_0, whole


def _most(minimum: int, maximum: int, unit: str) -> SettingRule:
    return whole(minimum, maximum, unit)._replace(stricter=lower_limit)


class AgentSettings(NamedTuple):
    """Subagents: how many at once, how many without asking, how deep, and how many rounds."""

    enabled: Annotated[bool, flag()] = True
    max_parallel: Annotated[int, _most(1, 64, "agents")] = 4
    ask_beyond: Annotated[int, _most(0, 64, "agents")] = 3
    max_depth: Annotated[int, _most(1, 8, "levels")] = 2
    max_rounds: Annotated[int, whole(0, 100_000, "rounds")._replace(stricter=lower_limit_but_0)] = (
        50
    )
