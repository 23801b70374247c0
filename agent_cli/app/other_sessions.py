"""Sessions of other agents beside our own: listed, searched, and copied to go on with them."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent_cli.contracts.errors import SessionError
from agent_cli.contracts.messages import new_id
from agent_cli.core.conversation import Conversation
from agent_cli.foreign_sessions.files import (
    ForeignSession,
    described,
    folders,
    foreign_sessions,
)
from agent_cli.session_store import Session, SessionStore

if TYPE_CHECKING:
    from agent_cli.contracts.listings import SessionInfo, SessionMatch


def listed_with(own: Sequence["SessionInfo"]) -> list["SessionInfo"]:
    """Return *own* sessions and other agents' sessions, last used first."""
    every = [*own, *described(foreign_sessions())]
    return sorted(every, key=lambda each: each.updated_at_ms, reverse=True)


def search_others(
    words: Sequence[str], *, redact: Callable[[str], str]
) -> Iterator["SessionMatch"]:
    """Yield each session of another agent that has an entry with all *words*.

    Raises:
        SessionError: The search took too long.
    """
    from agent_cli.session_store.transcripts import (  # rare
        candidates_in,
        match_in,
        patterns_of,
    )

    patterns = patterns_of(words)
    found = {of: candidates_in(folder, words) for of, folder in folders().items()}
    for session in foreign_sessions():
        candidates = found[session.program]
        if candidates is not None and session.path not in candidates:
            continue
        try:
            prompts, info = session.read(), session.describe()
        except SessionError:
            continue  # nothing was said in it, or it is deleted meanwhile
        if match := match_in(prompts, info, patterns, redact):
            yield match


def copy_of(
    session: ForeignSession, store: SessionStore, workspace: Path
) -> tuple[Session, Conversation]:
    """Begin a session with the conversation of *session*, whose file stays unchanged.

    Raises:
        SessionError: It cannot be read, or nothing was said in it.
    """
    conversation = Conversation(session.read(), id=new_id())
    parent = f"{session.program}:{session.id}"
    return store.create(conversation, workspace, parent=parent), conversation
