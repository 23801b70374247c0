"""Files that need a person's approval: they make programs act later.

Shared by the sandbox, which mounts them read-only, and by the tools that write files.
"""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from agent_cli.system.loading import late_pattern
from agent_cli.system.paths import Identity, identity

_OTHER_AGENTS = (
    *(".agents", ".claude", ".cursor", ".codex", ".gemini", ".opencode", "opencode.json"),
    *("opencode.jsonc", ".windsurf", ".kiro", ".roo", ".amazonq", ".qwen", ".crush.json"),
    *("crush.json", ".crush", ".aider.conf.yml", ".clinerules", ".continue", ".factory", ".junie"),
    *(".kilocode", ".pi", ".trae", ".vibe", ".agent", ".amp", ".augment", ".cline", ".codebuddy"),
    *(".grok", ".iflow", ".openhands", ".rovodev"),
)

_JS = ("js", "cjs", "mjs", "ts", "cts", "mts")
# They run with every commit, once their program is installed as a hook of git.
_HOOK_SETTINGS = (
    *(
        f"{dot}lefthook{local}.{kind}"
        for dot in ("", ".")
        for local in ("", "-local")
        for kind in ("yml", "yaml", "toml", "json", "jsonc")
    ),
    *(".lefthook", ".lefthook-local", ".pre-commit-config.yaml", ".pre-commit-config.yml"),
    *("prek.toml", ".overcommit.yml", ".local-overcommit.yml", "hk.pkl", "captainhook.json"),
    *("grumphp.yml", ".rusty-hook.toml", ".huskyrc", "husky.config.js"),
    *(f".huskyrc.{kind}" for kind in ("js", "json", "yml", "yaml")),
    ".lintstagedrc",
    *(f".lintstagedrc.{kind}" for kind in ("json", "yml", "yaml", *_JS)),
    *(f"lint-staged.config.{kind}" for kind in _JS),
)
# A shell that mise or direnv is hooked into acts on them when it enters the folder. Both ask about
# a new folder, but mise not about a changed file, and direnv not about what an `.envrc` sources.
_SHELL_SETTINGS = ("mise.toml", ".mise.toml", ".mise", ".config/mise", "mise/config.toml")
# With the name of an environment: `mise.test.toml`.
_MISE_STARTS = ("mise.", ".mise.")
# And `mise/config.test.toml`.
_MISE_VARIANT = late_pattern(r"(?:.*/)?(?<!/\.config/)mise/config\.(?:[^/]+\.)?toml", re.DOTALL)
# Settings of other version control: they name programs that each of its commands runs, or another
# folder of such settings.
_VERSION_CONTROL = (
    *(".hg/hgrc", ".hg/hgrc-not-shared", ".hg/sharedpath", ".jj/repo/config.toml"),
    *(".jj/workspace-config.toml", ".sl/config", ".sl/sharedpath", ".pijul/config"),
    *("_darcs/prefs/defaults", "_darcs/prefs/prefs", ".bzr/branch/branch.conf", ".p4config"),
)
_JJ_REPOSITORY = ".jj/repo"
_EDITORS = (".vscode", ".zed", ".helix", ".exrc", ".vimrc")
_EDITOR_FILES = (".code-workspace", ".sublime-project")
_IDES = (".idea", ".vs", ".project", ".externalToolBuilders", ".Rprofile", ".Renviron")

HOLDS_HOOKS = "holds git hooks: programs that run with every commit"

_SETTINGS = "holds agent-cli's settings for this folder, programs to start among them"
_AGENTS = "tells agents what to do and what to run"
_EDITOR = "can make the editor run programs"
_SHELL = "can make the shell run programs"
_VERSIONS = "can make version control run programs"

# What programs outside act on when a folder is opened or entered, or something is committed,
# without a word of the user about it: settings of this program, other agents, editors, shells and
# version control, and hooks. A Makefile is run by name, and direnv asks about a changed `.envrc`.
# Behind each stands what it may do.
_STARTS = {
    ".mcp.json": "names MCP servers: programs that agent-cli and other agents start",
    "appsettings.toml": _SETTINGS,
    "appsettings.json": _SETTINGS,
    **dict.fromkeys((".agent-cli", *_OTHER_AGENTS), _AGENTS),
    **dict.fromkeys(_EDITORS, _EDITOR),
    **dict.fromkeys(_IDES, "can make the IDE run programs"),
    ".devcontainer": f"{_EDITOR}, also outside of the container",
    ".devcontainer.json": f"{_EDITOR}, also outside of the container",
    ".husky": HOLDS_HOOKS,
    **dict.fromkeys(_HOOK_SETTINGS, "names programs that run with every commit"),
    **dict.fromkeys(_SHELL_SETTINGS, _SHELL),
    **dict.fromkeys(_VERSION_CONTROL, _VERSIONS),
}
PROTECTED_NAMES = tuple(_STARTS)
"""At the top of a workspace."""

_AT_TOP = {name.casefold(): what for name, what in _STARTS.items() if "/" not in name}
# The same in any folder below, since a part of a repository may be opened as a project.
_NESTED = {
    name: what
    for name, what in _AT_TOP.items()
    if name.startswith(".") or name in (*_HOOK_SETTINGS, *_SHELL_SETTINGS)
}
# Of the names with a folder in them: the folder, and the names in it.
VERSION_FOLDERS = frozenset(name.partition("/")[0] for name in _VERSION_CONTROL if "/" in name)
"""The folders of version control other than git, in lowercase."""
_IN_FOLDERS = {
    f"/{folder}": {
        each.rpartition("/")[2]: _STARTS[each] for each in _STARTS if each.startswith(f"{folder}/")
    }
    for folder in dict.fromkeys(name.rpartition("/")[0] for name in _STARTS if "/" in name)
}

_NESTED_FOLDERS = ("/.", "/_darcs/")

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

_PARTS_MAX = 2_048  # of a path: no system opens a longer one


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
    folder = ""
    parts = path.relative_to(root).parts[:_PARTS_MAX]
    for part in map(str.casefold, parts):
        if what := _starts_in(folder).get(part) or _variant_starts(folder, part):
            return what
        folder += f"/{part}"
    if folder.endswith(f"/{_JJ_REPOSITORY}"):
        return _VERSIONS
    known = _same(path, root, PROTECTED_NAMES)
    return f"is another name of {known}, which {_STARTS[known]}" if known else None


def settings_among(entries: "Iterable[os.DirEntry[str]]", folder: str) -> list[Path]:
    """Return what programs act on among the *entries* of *folder*, a path below the root.

    It begins with "/". For the root itself, "", those of `PROTECTED_NAMES` are left out.
    """
    folder = folder.casefold()
    known = _starts_in(folder) if folder else ()
    return [
        Path(entry.path)
        for entry in entries
        if (name := entry.name.casefold()) in known
        or _variant_starts(folder, name)
        or _leads_version_control(folder, name, entry)
    ]


def _starts_in(folder: str) -> Mapping[str, str]:
    """Return what programs may do by each name in *folder*, as in `settings_among`; lowercase."""
    here = _NESTED if folder else _AT_TOP
    for end, names in _IN_FOLDERS.items():
        if folder == end or (end.startswith(_NESTED_FOLDERS) and folder.endswith(end)):
            return {**here, **names}
    return here


def _variant_starts(folder: str, name: str) -> str | None:
    """Return what a file may start whose lowercase *name* only begins or ends as known ones do."""
    if name.endswith(_EDITOR_FILES):
        return _EDITOR
    if name.startswith(".envrc."):
        return _SHELL
    # What nix-direnv keeps for `use flake`, and has direnv run although nobody changed an `.envrc`.
    if name.endswith(".rc") and folder.endswith("/.direnv"):
        return _SHELL
    is_of_mise = name.endswith(".toml") and (
        name.startswith(_MISE_STARTS) or _MISE_VARIANT.fullmatch(f"{folder}/{name}")
    )
    return _SHELL if is_of_mise else None


def _leads_version_control(folder: str, name: str, entry: "os.DirEntry[str]") -> bool:
    """Return whether *entry* leads to settings of version control that lie elsewhere.

    A link does, and a file in place of the repository of jj, which names another one.
    """
    if name in VERSION_FOLDERS:
        return entry.is_symlink()
    return f"{folder}/{name}".endswith(f"/{_JJ_REPOSITORY}") and entry.is_file()


def _same(path: Path, root: Path, names: Iterable[str]) -> str | None:
    """Return the name of *names* in *root* that is the same file as *path* or a folder above it."""
    found = set[Identity]()
    above = str(root)
    for part in path.relative_to(root).parts:
        above += f"/{part}"
        if (known := identity(above)) is None:  # so is all below it: a script has many such words
            break
        found.add(known)
    return next((name for name in names if identity(root / name) in found), None) if found else None


def _is_setting_in_home(path: Path, root: Path) -> bool:
    home = Path.home()
    if not home.is_relative_to(root) or not path.is_relative_to(home):
        return False
    below = path.relative_to(home).parts
    return bool(below) and (below[0].startswith(".") or below[0] in HOME_NAMES)
