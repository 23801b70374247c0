"""The platform that serves the model: the setting, or else the variables of Claude Code."""

from collections.abc import Mapping

from agent_cli.contracts.errors import SettingsError
from agent_cli.contracts.options import PlatformName
from agent_cli.settings.environment import Environment
from agent_cli.settings.schema import Settings

SWITCHES: Mapping[str, PlatformName] = {
    "CLAUDE_CODE_USE_BEDROCK": "bedrock",
    "CLAUDE_CODE_USE_MANTLE": "bedrock",
    "CLAUDE_CODE_USE_VERTEX": "vertex",
    "CLAUDE_CODE_USE_FOUNDRY": "foundry",
    "CLAUDE_CODE_USE_ANTHROPIC_AWS": "aws",
}
_OFF = frozenset({"", "0", "false", "no", "off"})


def chosen_platform(settings: Settings, environment: Environment) -> PlatformName:
    """Return the chosen platform; a project's files cannot choose one.

    Raises:
        SettingsError: The variables name two different platforms.
    """
    platform = settings.provider.platform
    if platform != "auto":
        return platform
    on = switches_on(environment)
    if not on:
        return "anthropic"
    if len({SWITCHES[name] for name in on}) > 1:
        raise SettingsError(
            f"{' and '.join(on)} are set, and each names another platform; unset all but one, or"
            " set provider.platform"
        )
    return SWITCHES[on[0]]


def switches_on(environment: Environment) -> list[str]:
    """Return the variables that choose a platform."""
    return [name for name in SWITCHES if environment.get(name, "").strip().lower() not in _OFF]
