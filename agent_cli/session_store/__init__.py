"""Sessions on disk: every change of a conversation is appended to a file before it takes effect.

store = SessionStore(paths.sessions_dir(), tell=...)
session = store.create(conversation, workspace)         session, conversation = store.resume(id)
the conversation's publisher calls session.record(event) before any other listener
"""

from agent_cli.session_store.session import Session
from agent_cli.session_store.store import SessionStore

__all__ = ["Session", "SessionStore"]
