"""Sessions on disk: every change of a conversation is appended to a file before it takes effect.

store = SessionStore(paths.sessions_dir(), tell=...)
session = store.create(conversation, workspace)         session, conversation = store.resume(id)
the conversation's publisher calls session.record(event) before any other listener
"""

from agent_cli.session_store.export import export
from agent_cli.session_store.search import search
from agent_cli.session_store.session import Session
from agent_cli.session_store.store import SessionStore
from agent_cli.session_store.transcript import transcript
from agent_cli.session_store.verify import Finding, verify

__all__ = [
    "Finding",
    "Session",
    "SessionStore",
    "export",
    "search",
    "transcript",
    "verify",
]
