"""Files that need a person's approval: they make programs act later, or they hold secrets.

Shared by the sandbox, which mounts the first read-only and hides the second, and by the tools that
write and read files. Secrets that the name of a file does not tell are tokens in the settings of
package managers, which only some projects have there, so that the files are read; and what links
among the secrets of the home directory lead to.
"""

import os
import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path, PurePath

from agent_cli.system import paths
from agent_cli.system.fixed_paths import start_of
from agent_cli.system.loading import late_pattern
from agent_cli.system.paths import identity, real_path

_OTHER_AGENTS = (
    *(".agents", ".claude", ".cursor", ".codex", ".gemini", ".opencode", "opencode.json"),
    *("opencode.jsonc", ".windsurf", ".kiro", ".roo", ".amazonq", ".qwen", ".crush.json"),
    *("crush.json", ".crush", ".aider.conf.yml", ".clinerules", ".continue", ".factory", ".junie"),
    *(".kilocode", ".pi", ".trae", ".vibe"),
)

# They run with every commit, once their program is installed as a hook of git.
_HOOK_SETTINGS = (
    *(".pre-commit-config.yaml", "lefthook.yml", "lefthook.yaml", ".lefthook.yml"),
    *(".lefthook.yaml", ".overcommit.yml"),
)
# Settings of other version control, which may name programs that each of its commands runs.
_VERSION_CONTROL = (".hg/hgrc", ".hg/hgrc-not-shared", ".jj/repo/config.toml")

# What programs outside act on when a folder is opened or something is committed, without a word of
# the user about it, at the top of a workspace: settings of this program, other agents, editors and
# version control, and hooks. A Makefile is run by name, and direnv asks about a changed .envrc.
PROTECTED_NAMES = (
    *(".mcp.json", "appsettings.toml", "appsettings.json", ".agent-cli", *_OTHER_AGENTS),
    *(".vscode", ".idea", ".zed", ".helix", ".devcontainer", ".devcontainer.json", ".husky"),
    *(*_HOOK_SETTINGS, *_VERSION_CONTROL),
)
_WORKSPACE_FILE = ".code-workspace"

HOLDS_HOOKS = "holds git hooks: programs that run with every commit"

_SETTINGS = "holds agent-cli's settings for this folder, programs to start among them"
_AGENTS = "tells agents what to do and what to run"
_STARTS = {
    ".mcp.json": "names MCP servers: programs that agent-cli and other agents start",
    "appsettings.toml": _SETTINGS,
    "appsettings.json": _SETTINGS,
    ".vscode": "can make the editor run programs",
    ".idea": "can make the IDE run programs",
    ".zed": "can make the editor run programs",
    ".helix": "can make the editor run programs",
    ".devcontainer": "can make the editor run programs, also outside of the container",
    ".devcontainer.json": "can make the editor run programs, also outside of the container",
    ".husky": HOLDS_HOOKS,
    **dict.fromkeys(_HOOK_SETTINGS, "names programs that run with every commit"),
    **dict.fromkeys(_VERSION_CONTROL, "can make version control run programs"),
    **dict.fromkeys((".agent-cli", *_OTHER_AGENTS), _AGENTS),
}

# The same in any folder below, since a part of a repository may be opened as a project.
NESTED_NAMES = frozenset(name for name in PROTECTED_NAMES if name.startswith("."))

# The workspace may be the home directory. Then these must not be created, and all other dot files
# in it must not change.
HOME_NAMES = (
    *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".inputrc"),
    *(".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".gitconfig", ".vimrc"),
    *(".bash_aliases", ".pam_environment", ".xprofile", ".xsession", ".xsessionrc", ".xinitrc"),
    *(".config/git", ".config/fish", ".config/autostart", ".config/systemd", ".local/bin", "bin"),
    *(".config/environment.d", ".config/nvim", ".local/lib", ".vim", ".emacs", ".emacs.d"),
    *(".npmrc", ".tmux.conf"),
)

_GIT = ".git"

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


def why_protected(path: Path, root: Path, own: Iterable[Path] = ()) -> str | None:
    """Return why tools must never write the real *path* below *root*, or None.

    *own* are directories of this program. Names are compared without case, and by device and inode:
    some file systems do not distinguish `.GIT` from `.git`, and a hard link or a bind mount is the
    same file under another name.
    """
    if any(map(path.is_relative_to, own)):
        return "part of this program's own settings and records"
    parts = [part.casefold() for part in path.relative_to(root).parts]
    if _GIT in parts:
        return "part of git's own data"
    if _is_setting_in_home(path, root):
        return "a file that the user's shell and session start from"
    if _same(path, root, [_GIT]):
        return "another name of git's own data"
    return None


def what_it_starts(path: Path, root: Path) -> str | None:
    """Return what programs may do after a change of the real *path* below *root*, or None.

    Names are compared as in `why_protected`. Such a change needs approval.
    """
    parts = [part.casefold() for part in path.relative_to(root).parts]
    named = [
        part for at, part in enumerate(parts) if part in (NESTED_NAMES if at else PROTECTED_NAMES)
    ]
    if named:
        return _STARTS[named[0]]
    if is_workspace_file(path.name):
        return _STARTS[".vscode"]
    inside = f"/{'/'.join(parts)}/"
    if any(f"/{each}/" in inside for each in _VERSION_CONTROL):
        return _STARTS[_VERSION_CONTROL[0]]
    known = _same(path, root, PROTECTED_NAMES)
    return f"is another name of {known}, which {_STARTS[known]}" if known else None


def is_workspace_file(name: str) -> bool:
    """Return whether a file of this *name* is a workspace of VS Code, with settings and tasks."""
    return name.casefold().endswith(_WORKSPACE_FILE)


def _same(path: Path, root: Path, names: Iterable[str]) -> str | None:
    """Return the name of *names* in *root* that is the same file as *path* or a folder above it."""
    depth = len(path.relative_to(root).parts)
    found = {*map(identity, (path, *path.parents)[:depth])} - {None}
    if not found:  # most words of a script are no file
        return None
    return next((name for name in names if identity(root / name) in found), None)


def _is_setting_in_home(path: Path, root: Path) -> bool:
    home = Path.home()
    if not home.is_relative_to(root) or not path.is_relative_to(home):
        return False
    below = path.relative_to(home).parts
    return bool(below) and (below[0].startswith(".") or below[0] in HOME_NAMES)


def may_hold_token(name: str) -> bool:
    """Return whether a file of this *name* may hold a token."""
    return name.casefold() in _MAY_HOLD_TOKENS


def holds_token(path: PurePath) -> bool:
    """Return whether *path* is a settings file with a token in it."""
    if not may_hold_token(path.name):
        return False
    try:
        return _TOKEN.search(start_of(path, _BYTES_MAX)) is not None
    except OSError:
        return False


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


def is_behind_a_secret(path: PurePath) -> bool:
    """Return whether a secret of the home directory is a link that leads to the real *path*.

    A repository of settings has `netrc`, and `~/.netrc` is a link to it. Links that are made later
    than the first question are not seen.
    """
    targets = _targets(os.path.expanduser("~"), paths.user_env_file())  # noqa: PTH111 - as text
    return bool(targets) and any(each == path or each in path.parents for each in targets)


@lru_cache(maxsize=8)
def _targets(home: str, own: Path) -> frozenset[Path]:
    at_home = real_path(home)
    found = set[Path]()
    for named in (own, *(Path(home, name) for name in SECRETS)):
        if os.path.lexists(named):
            target = real_path(named)
            inside = named.is_relative_to(home)
            if target != (at_home / named.relative_to(home) if inside else named):
                found.add(target)
    return frozenset(found)
