"""The variables of a project's `.env` that this program uses; it ignores all other variables.

Only these are read in a trusted workspace, asked about, and part of what is trusted. Most `.env`
files belong to the project's own programs, and hold keys that no question should show.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from agent_cli.contracts.errors import SettingsError
from agent_cli.settings import ENVIRONMENT_PREFIX, PROJECT_CREDENTIALS, read_file
from agent_cli.settings.environment import OPTIONAL_SECRETS
from agent_cli.system import paths
from agent_cli.system.loading import late_pattern

_OWN = frozenset((*PROJECT_CREDENTIALS, *(n for names in OPTIONAL_SECRETS.values() for n in names)))
VARIABLE = late_pattern(r"\$\{([A-Za-z_]\w*)")


def acting_variables(workspace: Path, files: Iterable[Path]) -> Mapping[str, str]:
    """Return the variables that the workspace's `.env` sets for this program.

    Args:
        workspace: The directory with the `.env`.
        files: The other files that would act: a `${NAME}` in one may stand for such a variable.

    Raises:
        SettingsError: The `.env` cannot be read.
    """
    path = workspace / ".env"
    if not paths.is_file(path):
        return {}
    text = read_file(path)
    names = _OWN | {name for file in files for name in VARIABLE.findall(_text_of(file))}
    # The parser is imported only where a name occurs at all: this runs at each start.
    if not any(name in text for name in (ENVIRONMENT_PREFIX, *names)):
        return {}
    from agent_cli.settings.env_file import read_env_file

    found, _ = read_env_file(path, from_project=True)
    return {
        name: value
        for name, value in found.items()
        if name in names or name.startswith(ENVIRONMENT_PREFIX)
    }


def _text_of(path: Path) -> str:
    try:
        return read_file(path)
    except SettingsError:  # whoever uses the file reports that
        return ""
