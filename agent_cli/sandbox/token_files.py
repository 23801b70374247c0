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
