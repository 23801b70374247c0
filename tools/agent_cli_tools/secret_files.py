"""Which files hold keys and passwords, judged by their path alone; nothing here opens a file."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePath

_NAMES = frozenset(
    {
        *(".env", ".envrc", ".netrc", "_netrc", ".pgpass", ".pypirc", ".git-credentials"),
        *("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"),
    }
)
_SUFFIXES = (".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx")
_EXAMPLES = frozenset({".env.example", ".env.sample", ".env.template", ".env.dist"})
_FOLDERS = frozenset({".ssh", ".gnupg", ".aws", ".azure", ".kube", ".password-store"})
_PLACES = ("/.docker/config.json", "/.config/gh/hosts.yml", "/.config/gcloud")


def is_secret(path: PurePath) -> bool:
    """Whether *path* names a secret, in any case: some file systems do not tell `.ENV` apart."""
    parts = path.as_posix().casefold().split("/")
    name = parts[-1]
    if name in _NAMES or name.endswith(_SUFFIXES):
        return True
    if name.startswith(".env.") and name not in _EXAMPLES:
        return True
    # Of a process, our own too, it holds the keys it was started with.
    if not _FOLDERS.isdisjoint(parts) or ("proc" in parts and name == "environ"):
        return True
    return any(place in path.as_posix().casefold() for place in _PLACES)


def is_linked_secret(state: os.stat_result, *directories: Path) -> bool:
    """Whether a file in this *state* is, by another name, a secret of the user.

    Looked for is what lies directly in *directories* and in the usual folders there, and only if
    the file has several names at all.
    """
    if state.st_nlink == 1 or not stat.S_ISREG(state.st_mode):
        return False
    folders = (place for each in directories for place in (each, *(each / f for f in _FOLDERS)))
    return any(os.path.samestat(state, found) for folder in folders for found in _states(folder))


def is_other_name(path: PurePath, *directories: Path) -> bool:
    """Whether there is such a secret at *path*, as `is_linked_secret` finds it."""
    try:
        return is_linked_secret(Path(path).stat(), *directories)
    except OSError:
        return False  # Nothing is there, or nothing for us.


def _states(folder: Path) -> Iterator[os.stat_result]:
    try:
        entries = [path for path in folder.iterdir() if is_secret(path)]
        yield from (path.lstat() for path in entries)
    except OSError:
        return  # It is not there, or not ours to look into.
