"""Detect tokens in the settings of package managers, which only some projects have there.

Unlike secrets, these files cannot be recognised by name, so they are read.
"""

import re
from pathlib import PurePath

from agent_cli.system.fixed_paths import start_of

_NAMES = frozenset({".npmrc", ".yarnrc.yml", ".yarnrc", "pip.conf", ".condarc", "nuget.config"})
# A reference to an environment variable (${NPM_TOKEN}) is not a secret.
_TOKEN = re.compile(
    rb"(?:_authToken|_auth|_password|npmAuthToken|npmAuthIdent)[\"']?\s*[=:]\s*[\"']?(?!\$)[^\s\"'$]"
    rb"|://[^/\s:@]+:(?!\$)[^/\s@]+@|ClearTextPassword[\"']\s+value",
    re.IGNORECASE,
)
_BYTES_MAX = 100_000


def may_hold_token(name: str) -> bool:
    """Return whether a file of this *name* may hold a token."""
    return name.casefold() in _NAMES


def holds_token(path: PurePath) -> bool:
    """Return whether *path* is a settings file with a token in it."""
    if not may_hold_token(path.name):
        return False
    try:
        return _TOKEN.search(start_of(path, _BYTES_MAX)) is not None
    except OSError:
        return False
