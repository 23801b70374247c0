"""Which files hold keys and passwords, judged by their path alone; nothing here opens a file."""

from pathlib import PurePath

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
    if not _FOLDERS.isdisjoint(parts):
        return True
    return any(place in path.as_posix().casefold() for place in _PLACES)
