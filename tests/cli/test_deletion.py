"""`agent-cli sessions delete`, as typed."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_cli.contracts.messages import UserMessage
from agent_cli.core.conversation import Conversation
from agent_cli.session_store import Session, SessionStore
from agent_cli.system.paths import changes_dir, server_files_dir, sessions_dir
from tests.e2e.program import AGENT_CLI, KEY, agent_cli, environment
from tests.repl.terminal import Terminal


def keep(text: str) -> Session:
    """Return a session of this directory, with folders that others keep for it."""
    conversation = Conversation()
    session = SessionStore(sessions_dir()).create(conversation, Path.cwd())
    conversation.publish = session.record
    conversation.begin(UserMessage.of(text))
    session.close()
    for folder in (changes_dir() / session.id, server_files_dir(session.id)):
        folder.mkdir(parents=True)
        (folder / "kept.bin").touch()
    return session


@contextmanager
def asked(*ids: str) -> Generator[Terminal]:
    """Delete sessions on a terminal, up to the question."""
    with Terminal(AGENT_CLI, "sessions", "delete", *ids, **environment(None, {})) as terminal:
        terminal.until("for good? [y/N]")
        yield terminal


def test_deletion_in_a_script_needs_the_yes_option() -> None:
    """A pipe cannot be asked; nothing of the deleted session is left, and other sessions stay."""
    session, other = keep("hello"), keep("stay")
    unasked = agent_cli("sessions", "delete", session.id, stdin="y\n")
    assert session.path.exists()

    deleted = agent_cli("sessions", "delete", session.id, "--yes")

    assert (unasked.code, unasked.stdout) == (2, "")
    assert "--yes deletes sessions without asking" in unasked.stderr
    assert (deleted.code, deleted.stdout, deleted.stderr) == (0, "1 session deleted\n", "")
    for folder in (changes_dir(), server_files_dir("x").parent):
        assert [each.name for each in folder.iterdir()] == [other.id]
    assert agent_cli("sessions", "show", session.id).code == 2


def test_deletion_refuses_unknown_and_open_sessions() -> None:
    session = keep("hello")
    opened, _ = SessionStore(sessions_dir()).resume(session.id)

    unknown = agent_cli("sessions", "delete", session.id, "unknown", "--yes")
    refused = agent_cli("sessions", "delete", session.id, "--yes")

    assert (unknown.code, refused.code) == (2, 1)
    assert "session 'unknown' does not exist" in unknown.stderr
    assert refused.stderr == (
        f"agent-cli: session {session.id} is open in another agent-cli: close it there first\n"
    )
    opened.close()
    assert session.path.exists()


@pytest.mark.parametrize("answer", ["n\r", "\r", "\x04"])
def test_only_a_yes_deletes_the_session(answer: str) -> None:
    session = keep("hello")

    with asked(session.id) as terminal:
        terminal.send(answer)
        assert terminal.exit_code() == 1
        assert "nothing was deleted" in terminal.text

    assert session.path.exists()


def test_deletion_question_lists_the_sessions_with_secrets_masked() -> None:
    """It is asked once for all of them, with ID, last use and first words."""
    one, two = keep(f"use the key {KEY} now"), keep("another")

    with asked(one.id[:-1], two.id) as terminal:
        assert one.id in terminal.text
        assert "use the key *** now" in terminal.text
        assert "Delete 2 sessions for good?" in terminal.text
        terminal.send("y\r")
        assert terminal.exit_code() == 0
        assert "2 sessions deleted" in terminal.text

    assert [*sessions_dir().glob("*.jsonl")] == []


def test_ctrl_c_at_the_deletion_question_deletes_nothing() -> None:
    session = keep("hello")

    with asked(session.id) as terminal:
        terminal.send("\x03")
        assert terminal.exit_code() == 130

    assert session.path.exists()
