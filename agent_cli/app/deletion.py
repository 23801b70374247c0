"""Delete sessions with everything that any part of the program keeps for them."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from agent_cli.contracts.errors import SessionError
from agent_cli.session_store import SessionStore
from agent_cli.session_store.deletion import delete
from agent_cli.system import paths


def delete_sessions(store: SessionStore, ids: Iterable[str]) -> int:
    """Delete sessions; return their number. Raises and does as `session_store.deletion.delete`."""
    return delete(store, ids, folders_of=_folders)


def delete_unused(store: SessionStore, id: str) -> None:
    """Delete a session that was made for nothing, as well as possible; this may take a second."""
    with suppress(SessionError):
        delete_sessions(store, [id])


def _folders(id: str) -> tuple[Path, ...]:
    return paths.changes_dir() / id, paths.server_files_dir(id)
