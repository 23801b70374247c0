"""Settings from files, variables and options: checked, frozen, each with its origin.

The only package that uses tomllib and dotenv. `config show` is in `agent_cli.settings.show`,
which start-up does not need.
"""

from agent_cli.settings.environment import (
    OPTIONAL_SECRETS,
    Environment,
    check_credentials,
    load_environment,
)
from agent_cli.settings.load import Loaded, load_settings
from agent_cli.settings.schema import LogSink, McpServer, Settings
from agent_cli.settings.sources import SETTINGS_FILES, Override

__all__ = [
    "OPTIONAL_SECRETS",
    "SETTINGS_FILES",
    "Environment",
    "Loaded",
    "LogSink",
    "McpServer",
    "Override",
    "Settings",
    "check_credentials",
    "load_environment",
    "load_settings",
]
