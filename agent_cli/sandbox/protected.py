"""Files that make programs act later: the model may not change them without approval.

Shared by the sandbox, which mounts them read-only, and by the tools that write files.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

_OTHER_AGENTS = (
    *(".agents", ".claude", ".cursor", ".codex", ".gemini", ".opencode", "opencode.json"),
    *("opencode.jsonc", ".windsurf", ".kiro", ".roo", ".amazonq", ".qwen"),
)

# Settings of this program, other agents, editors and git hooks, at the top of a workspace.
NAMES = (
    *(".mcp.json", "appsettings.toml", "appsettings.json", ".agent-cli", *_OTHER_AGENTS),
    *(".vscode", ".idea", ".zed", ".husky"),
)

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
    ".husky": HOLDS_HOOKS,
    **dict.fromkeys((".agent-cli", *_OTHER_AGENTS), _AGENTS),
}

# The same in any folder below, since a part of a repository may be opened as a project.
NESTED_NAMES = frozenset(name for name in NAMES if name.startswith("."))

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
    named = [part for at, part in enumerate(parts) if part in (NESTED_NAMES if at else NAMES)]
    if named:
        return _STARTS[named[0]]
    known = _same(path, root, NAMES)
    return f"is another name of {known}, which {_STARTS[known]}" if known else None


def _same(path: Path, root: Path, names: Iterable[str]) -> str | None:
    """Return the name of *names* in *root* that is the same file as *path* or a folder above it."""
    depth = len(path.relative_to(root).parts)
    found = set(_identities(iter((path, *path.parents)[:depth])))
    if not found:  # most words of a script are no file
        return None
    return next((n for n in names if not found.isdisjoint(_identities(iter([root / n])))), None)


def _is_setting_in_home(path: Path, root: Path) -> bool:
    home = Path.home()
    if not home.is_relative_to(root) or not path.is_relative_to(home):
        return False
    below = path.relative_to(home).parts
    return bool(below) and (below[0].startswith(".") or below[0] in HOME_NAMES)


def _identities(paths: Iterator[Path]) -> Iterator[tuple[int, int]]:
    for path in paths:
        try:
            state = os.stat(path)  # noqa: PTH116 - the pair, not the path, is wanted
        except OSError:
            continue
        yield state.st_dev, state.st_ino
