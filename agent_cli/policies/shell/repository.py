"""Detect repositories whose configuration names programs that read-only git commands run.

The configuration is parsed here, because git itself would run the programs. A key not known to be
harmless counts as one: a future key may name a program.
"""

import os
import re
from pathlib import Path

from agent_cli.system.fixed_paths import start_of
from agent_cli.system.late_patterns import late_pattern

_CONFIG_BYTES_MAX = 64 * 1024
_INDEX_BYTES_MAX = 64 * 1024 * 1024
# The mode of a submodule: `git status` enters it, and reads its configuration.
_SUBMODULE = b"\x00\x00\xe0\x00"
_HARMLESS = late_pattern(
    r"core\.(?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|symlinks|autocrlf"
    r"|precomposeunicode|eol|quotepath|longpaths|safecrlf|abbrev|compression)"
    r"|remote\..+\.(?:url|pushurl|fetch|tagopt|prune)|remote\.pushdefault"
    r"|branch\..+\.(?:remote|merge|rebase|pushremote|description)|branch\.autosetup\w+"
    r"|user\.(?:name|email)|init\.defaultbranch|pull\.(?:rebase|ff)|push\.\w+|fetch\.prune"
    r"|color\..+|advice\..+|merge\.conflictstyle|rerere\.enabled|rebase\.auto\w+"
    r"|diff\.(?:renames|algorithm|mnemonicprefix|colormoved)|log\.(?:date|decorate)"
)
_ELSEWHERE = ("commondir", "config.worktree", "objects/info/alternates", "modules", "worktrees")


def names_no_program(root: Path) -> bool:
    """Return whether read-only git commands in *root* start no program of the repository.

    The repository must lie in *root* itself, without submodules, hooks or a second configuration.
    """
    git = root / ".git"
    try:
        return (
            git.is_dir()
            and not git.is_symlink()
            and not any(os.path.lexists(git / name) for name in _ELSEWHERE)
            and not any(git.glob("sharedindex.*"))
            and _has_no_hooks(git / "hooks")
            and _has_no_submodules(git / "index")
            and _is_harmless(git / "config")
        )
    except OSError:
        return False


def is_same_repository(root: Path, folder: Path) -> bool:
    """Return whether git in *folder*, below *root*, uses the repository of *root*."""
    between = [each for each in (folder, *folder.parents) if each.is_relative_to(root)]
    return not any(
        os.path.lexists(each / name)
        for each in between
        if each != root
        for name in (".git", "HEAD")
    )


def _has_no_hooks(hooks: Path) -> bool:
    return not hooks.exists() or all(path.name.endswith(".sample") for path in hooks.iterdir())


def _has_no_submodules(index: Path) -> bool:
    if not index.exists():
        return True
    content = start_of(index, _INDEX_BYTES_MAX + 1)
    return len(content) <= _INDEX_BYTES_MAX and _SUBMODULE not in content


def _is_harmless(config: Path) -> bool:
    """Return whether every key is known to be harmless; a file we cannot parse is not."""
    written = start_of(config, _CONFIG_BYTES_MAX + 1)
    try:
        text = written.decode("ascii")
    except UnicodeDecodeError:
        return False
    section = ""
    # For git only a line feed ends a line; Python's splitlines() knows more line ends.
    for line in map(str.strip, text.split("\n")):
        if not line or line[0] in "#;":
            continue
        if found := re.fullmatch(r'\[([\w.-]+)(?: "([^"\\]*)")?\]', line):
            section = ".".join(filter(None, (found[1].lower(), found[2])))
        elif found := re.fullmatch(r"([A-Za-z][\w-]*)(?:\s*=\s*([^\\]*))?", line):
            if not section or not _HARMLESS.fullmatch(f"{section}.{found[1].lower()}"):
                return False
        else:
            return False
    return len(written) <= _CONFIG_BYTES_MAX
