"""Whether the model can be asked at all, as far as can be told before the first prompt."""

from agent_cli.app.startup import StartupContext
from agent_cli.settings import check_credentials
from agent_cli.settings.platform import chosen_platform, switches_on


def check_access(startup: StartupContext) -> None:
    """Make sure that nothing is missing which the chosen platform always needs.

    Raises:
        NoCredentials: A key or a variable is not set, or a package is not installed.
        SettingsError: Two platforms are chosen.
    """
    name = chosen_platform(startup.loaded.settings, startup.environment)
    if name == "anthropic":
        check_credentials(startup.environment)
        return
    from agent_cli.providers import platforms  # noqa: PLC0415 - only for another cloud

    platforms.check_access(platforms.PLATFORMS[name], startup.environment.without_project())


def why_chosen(startup: StartupContext) -> str:
    """Return what chose the platform: variables, or the place of the setting."""
    if startup.loaded.settings.provider.platform == "auto":
        return ", ".join(switches_on(startup.environment))
    return startup.loaded.origins["provider.platform"]
