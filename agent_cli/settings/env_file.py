"""One `.env` file: its variables, invalid lines, and variables a project must not set.

Imported only if there is such a file, to keep start-up fast.
"""

from io import StringIO
from pathlib import Path
from typing import NamedTuple

# The parser alone: the package's own reader prints invalid lines to the terminal.
from dotenv.parser import parse_stream

from agent_cli.settings import NOT_A_VARIABLE, PROJECT_CREDENTIALS, read_file
from agent_cli.system import paths

# These decide where requests and keys go, or which program runs.
_USER_ONLY_NAMES = frozenset(
    {
        "HOME", "PATH", "SHELL", "ENV", "BASH_ENV", "IFS", "PAGER", "EDITOR", "VISUAL",
        "NODE_OPTIONS", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
    }
)  # fmt: skip
# The HTTP library reads these from the process alone.
_EXPORTED_NAMES = frozenset(
    {"ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"}
)
_USER_ONLY_PREFIXES = ("LD_", "DYLD_", "PYTHON", "XDG_", "GIT_", "SSL_", "ANTHROPIC_", "CLAUDE_")


class EnvFile(NamedTuple):
    """The content of one file.

    Attributes:
        notices: Sentences about lines left out; never their text.
    """

    variables: dict[str, str]
    notices: list[str]


def read_env_file(path: Path, *, from_project: bool) -> EnvFile:
    """Read one `.env`; values are taken literally, `${NAME}` is not expanded.

    A name without a value is ignored: a copied example must not hide a value set elsewhere.

    Raises:
        SettingsError: The file cannot be read, or is not UTF-8.
    """
    found = EnvFile({}, [])
    for binding in parse_stream(StringIO(read_file(path))):
        where = f"{path}:{binding.original.line}"
        if binding.error or (binding.key and binding.value is None):
            found.notices.append(f"{where}: {NOT_A_VARIABLE}")
        elif binding.key and from_project and is_user_only(binding.key):
            is_exported = binding.key.upper() in _EXPORTED_NAMES
            do_this = "export it" if is_exported else f"set it in {paths.user_env_file()}"
            found.notices.append(f"{where}: {binding.key} cannot be set by a project; {do_this}")
        elif binding.key and binding.value:
            if binding.key.upper() in _EXPORTED_NAMES:
                found.notices.append(f"{where}: {binding.key} counts only if it is exported")
            found.variables[binding.key] = binding.value
    return found


def is_user_only(name: str) -> bool:
    """Return whether a project must not set *name*."""
    upper = name.upper()
    if upper in PROJECT_CREDENTIALS:
        return False
    is_named = upper in _USER_ONLY_NAMES | _EXPORTED_NAMES
    return is_named or upper.startswith(_USER_ONLY_PREFIXES)
