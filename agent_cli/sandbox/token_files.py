"""Detect secrets that the name of a file does not tell.

These are tokens in the settings of package managers, which only some projects have there, so that
the files are read; and what links among the secrets of the home directory lead to.
"""

import os
import re
from functools import lru_cache
from pathlib import Path, PurePath

from agent_cli.system import paths
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


# The places in a home directory where programs keep keys, passwords and histories.
#
# Shared by the sandbox, which hides them from commands, and by the tools that read files.

SECRETS = (
    *(".ssh", ".gnupg", ".aws", ".azure", ".kube", ".password-store", ".docker/config.json"),
    *(".netrc", "_netrc", ".pgpass", ".pypirc", ".git-credentials", ".vault-token"),
    *(".config/gh", ".config/gcloud", ".config/git/credentials", ".config/op", ".config/hub"),
    *(".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials"),
    *(".terraform.d/credentials.tfrc.json", ".config/containers/auth.json"),
    *(".local/share/keyrings", ".local/share/kwalletd", ".mozilla", ".thunderbird"),
    *(".config/google-chrome", ".config/chromium", ".config/BraveSoftware", "Library/Keychains"),
    *(".claude/.credentials.json", ".codex/auth.json", ".gemini/oauth_creds.json"),
    *(".config/github-copilot", ".local/share/opencode/auth.json", ".cache/huggingface/token"),
    *(".config/rclone/rclone.conf", ".config/sops/age/keys.txt", ".s3cfg"),
    *(".Xauthority", ".ICEauthority", ".local/share/fish/fish_history", ".node_repl_history"),
    *(".bash_history", ".zsh_history", ".python_history", ".psql_history", ".mysql_history"),
)
"""Secret wherever they are: a backup of a home directory has them, too."""

SETTINGS = (".npmrc", ".yarnrc.yml", ".m2/settings.xml")
"""May hold passwords; projects have harmless ones of the same names."""


def is_behind_a_secret(path: PurePath) -> bool:
    """Return whether a secret of the home directory is a link that leads to the real *path*.

    A repository of settings has `netrc`, and `~/.netrc` is a link to it. Links that are made later
    than the first question are not seen.
    """
    targets = _targets(os.path.expanduser("~"), paths.user_env_file())  # noqa: PTH111 - as text
    return bool(targets) and any(each == path or each in path.parents for each in targets)


@lru_cache(maxsize=8)
def _targets(home: str, own: Path) -> frozenset[Path]:
    at_home = Path(os.path.realpath(home))
    found = set[Path]()
    for named in (own, *(Path(home, name) for name in SECRETS)):
        if os.path.lexists(named):
            target = Path(os.path.realpath(named))
            inside = named.is_relative_to(home)
            if target != (at_home / named.relative_to(home) if inside else named):
                found.add(target)
    return frozenset(found)
