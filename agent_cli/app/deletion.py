"""Delete sessions with all that the program keeps for them, whichever part of it does."""

from collections.abc import Iterable
from pathlib import Path

from agent_cli.session_store import SessionStore
from agent_cli.session_store.deletion import delete
from agent_cli.system import paths


def delete_sessions(store: SessionStore, ids: Iterable[str]) -> int:
    """Delete sessions; return their number. Raises and does as `session_store.deletion.delete`."""
    return delete(store, ids, folders_of=_folders)


def _folders(id: str) -> tuple[Path, ...]:
    return paths.changes_dir() / id, paths.server_files_dir(id)
