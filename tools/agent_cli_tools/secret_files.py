"""Recognise files with keys and passwords, by their path alone; no file is opened."""

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path, PurePath

from agent_cli.sandbox.guarded_files import SECRETS
from agent_cli.system.loading import late_pattern

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
