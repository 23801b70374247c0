"""Settings of package managers, which hold a token in some projects and none in most.

Unlike a secret's, their name says nothing, so they are opened.
"""

import re
from pathlib import PurePath

_NAMES = frozenset({".npmrc", ".yarnrc.yml", ".yarnrc", "pip.conf", ".condarc", "nuget.config"})
# A reference to the environment (${NPM_TOKEN}) is no secret.
_TOKEN = re.compile(
    rb"(?:_authToken|_auth|_password|npmAuthToken|npmAuthIdent)[\"']?\s*[=:]\s*[\"']?(?!\$)[^\s\"'$]"
    rb"|://[^/\s:@]+:(?!\$)[^/\s@]+@|ClearTextPassword[\"']\s+value",
    re.IGNORECASE,
)
_BYTES_MAX = 100_000


def holds_token(path: PurePath) -> bool:
    """Return whether *path* is such a file with a token in it."""
    if path.name.casefold() not in _NAMES:
        return False
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - a PurePath cannot open
            return _TOKEN.search(file.read(_BYTES_MAX)) is not None
    except OSError:
        return False
