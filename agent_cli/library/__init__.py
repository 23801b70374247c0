"""The public Python API of the whole program: sessions with tools, rights and a budget.

Import its names from `agent_cli`. It adds no behaviour of its own: options become arguments and
settings, and the program's own builder does the rest.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent_cli.contracts.options import require

if TYPE_CHECKING:
    from agent_cli.contracts.listings import SessionInfo
    from agent_cli.core.conversation import Conversation
    from agent_cli.session_store import SessionStore


def list_sessions(*, agents_of: str | None = None) -> Sequence["SessionInfo"]:
    """Return the saved sessions, the most recently used first; it reads files.

    Args:
        agents_of: The id of a session: return those of its subagents instead, nested ones included.
            `agent` is the name of each, and `parent_call` the call that started it.

    Raises:
        SessionNotFound: No session, or more than one, has the id.
    """
    require(agents_of, str, type(None), what="agents_of")
    store = _store()
    if agents_of is None:
        return store.list()
    return tuple(store.agents_of(store.describe(store.find(agents_of))))


def read_session(id: str) -> "Conversation":
    """Return a copy of the conversation of a saved session, or of a subagent; it may be open.

    It reads the file and opens nothing: no key is needed, and nothing of the session changes. Of a
    damaged session it is the part before the damage (`SessionInfo.problem`).

    Args:
        id: The id, or the beginning of one that fits no other session.

    Raises:
        SessionNotFound: No session, or more than one, has the id.
        SessionError: The session cannot be read.
    """
    from agent_cli.core.conversation import Conversation  # rare, as the store

    require(id, str, what="the id of a session")
    store = _store()
    path = store.find(id)
    history = store.history(path)
    conversation = Conversation(history.prompts, id=path.stem)
    conversation.taken_back = history.taken_back
    return conversation


def _store() -> "SessionStore":
    from agent_cli.session_store import SessionStore
    from agent_cli.system import paths

    return SessionStore(paths.sessions_dir())
