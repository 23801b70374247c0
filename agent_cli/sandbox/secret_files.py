"""Recognise files with secrets: keys, passwords and tokens.

Shared by the sandbox, which hides them, and by the tools that read files. The path tells most of
them. It does not tell tokens in the settings of package managers, which only some projects have
there, so that these files are read; nor what links among the secrets of the home directory lead to.
"""

import os
import re
import stat
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path, PurePath

from agent_cli.sandbox.report import is_shortage
from agent_cli.system import paths
from agent_cli.system.fixed_paths import start_of
from agent_cli.system.loading import late_pattern
from agent_cli.system.paths import real_path

# The places in a home directory where programs keep keys, passwords and histories.
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

MAY_HOLD_PASSWORDS = (".npmrc", ".yarnrc.yml", ".m2/settings.xml")
"""May hold passwords; projects have harmless ones of the same names."""

OF_THE_SYSTEM = ("/etc/shadow", "/etc/gshadow", "/etc/shadow-", "/etc/gshadow-")
"""The passwords of all users; few can read them."""

_NAMES = frozenset({".env", ".envrc", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"})
_SUFFIXES = (".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx")
_EXAMPLES = frozenset({".env.example", ".env.sample", ".env.template", ".env.dist"})
_FOLDERS = frozenset({".ssh", ".gnupg", ".aws", ".azure", ".kube", ".password-store"})
_PARTS = frozenset(name.casefold() for name in SECRETS if "/" not in name)
_TOPS = frozenset(name.casefold().partition("/")[0] for name in SECRETS)
# Copies of them, such as `config.json.bak`, count as well.
_PATHS = late_pattern(
    "|".join(rf"/{re.escape(name.casefold())}(?![\w-])" for name in SECRETS if "/" in name)
)

_MAY_HOLD_TOKENS = frozenset(
    {".npmrc", ".yarnrc.yml", ".yarnrc", "pip.conf", ".condarc", "nuget.config"}
)
# A reference to an environment variable (${NPM_TOKEN}) is not a secret.
_TOKEN = late_pattern(
    rb"(?:_authToken|_auth|_password|npmAuthToken|npmAuthIdent)[\"']?\s*[=:]\s*[\"']?(?!\$)[^\s\"'$]"
    rb"|://[^/\s:@]+:(?!\$)[^/\s@]+@|ClearTextPassword[\"']\s+value",
    re.IGNORECASE,
)
_BYTES_MAX = 100_000


def is_secret(path: PurePath | str) -> bool:
    """Return whether *path* names a secret, ignoring case as some file systems do.

    It is absolute, or absolute as seen from a folder: some are known by the folder they are in.
    """
    text = str(path).casefold()
    parts = text.split("/")
    name = parts[-1]
    if name in _NAMES or name.endswith(_SUFFIXES):
        return True
    if name.startswith(".env.") and name not in _EXAMPLES:
        return True
    # The environment of a process, ours included, which may have keys.
    if name == "environ" and "proc" in parts:
        return True
    # Most paths end here: this runs for every file of a workspace.
    if _TOPS.isdisjoint(parts):
        return False
    return not _PARTS.isdisjoint(parts) or _PATHS.search(text) is not None


def is_linked_secret(state: os.stat_result, *directories: Path) -> bool:
    """Return whether a file in this *state* is a hard link to a secret of the user.

    Only files directly in *directories* and in their usual subfolders are compared, and only if the
    file has several links.
    """
    if state.st_nlink == 1 or not stat.S_ISREG(state.st_mode):
        return False
    folders = (path for each in directories for path in (each, *(each / f for f in _FOLDERS)))
    return any(os.path.samestat(state, found) for folder in folders for found in _states(folder))


def is_other_name(path: PurePath, *directories: Path) -> bool:
    """Return whether *path* is such a link; see `is_linked_secret`."""
    try:
        return is_linked_secret(Path(path).stat(), *directories)
    except OSError:
        return False  # It does not exist, or is not accessible.


def _states(folder: Path) -> Iterator[os.stat_result]:
    try:
        entries = [path for path in folder.iterdir() if is_secret(path)]
        yield from (path.lstat() for path in entries)
    except OSError:
        return  # It does not exist, or is not accessible.


def may_hold_token(name: str) -> bool:
    """Return whether a file of this *name* may hold a token."""
    return name.casefold() in _MAY_HOLD_TOKENS


def holds_token(path: PurePath) -> bool:
    """Return whether *path* is a settings file with a token in it, or cannot be read just now."""
    if not may_hold_token(path.name):
        return False
    try:
        return _TOKEN.search(start_of(path, _BYTES_MAX)) is not None
    except OSError as error:
        return is_shortage(error)


def is_behind_a_secret(path: PurePath) -> bool:
    """Return whether a secret of the home directory is a link that leads to the real *path*.

    A repository of settings has `netrc`, and `~/.netrc` is a link to it. Links that are made later
    than the first question are not seen.
    """
    home = os.path.expanduser("~")  # noqa: PTH111 - as text
    targets = _targets(home, os.environ.get("XDG_CONFIG_HOME", ""))
    return bool(targets) and any(each == path or each in path.parents for each in targets)


@lru_cache(maxsize=8)
def _targets(home: str, _config: str) -> frozenset[Path]:
    """Return where links lead that have the name of a secret in *home*, or of our own `.env`.

    The folder of that `.env` follows from both arguments.
    """
    at_home = real_path(home)
    found = set[Path]()
    for named in (paths.user_env_file(), *(Path(home, name) for name in SECRETS)):
        if os.path.lexists(named):
            target = real_path(named)
            inside = named.is_relative_to(home)
            if target != (at_home / named.relative_to(home) if inside else named):
                found.add(target)
    return frozenset(found)
