"""Search in all sessions: the matching sessions, the entries searched, and those never searched."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.sessions import SessionMatch
from agent_cli.contracts.timeline import Success, text_block
from agent_cli.core.conversation import Conversation
from agent_cli.session_store import SessionStore
from agent_cli.session_store.blobs import BLOB_CHARS_MIN
from agent_cli.session_store.search import search
from agent_cli.system import programs
from agent_cli.system.redaction import Redactor
from tests.fakes import calls, says, tool_use

KEY = "canary-5d1f7c9e"


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path / "sessions")


def keep(
    store: SessionStore, prompt: str, reply: str, result: str = "", *, visible: bool = True
) -> str:
    """Keep a session of one prompt; return its id."""
    conversation = Conversation()
    session = store.create(conversation, Path("/work"))
    conversation.publish = session.record
    conversation.begin(UserMessage.of(prompt), visible=visible)
    if result:
        conversation.add_reply(calls(tool_use("bash", {"command": "env"}), text="I run it."))
        conversation.settle_call("t1", Success((text_block(result),)))
    conversation.add_reply(says(reply))
    conversation.complete()
    session.close()
    return session.id


def found(store: SessionStore, *words: str) -> Sequence[SessionMatch]:
    redact = Redactor([KEY]).text
    return list(search(store, words, redact=redact))


def test_all_words_must_stand_in_one_entry(store: SessionStore) -> None:
    """In any case and order; of several entries the last is shown, with their count."""
    one = keep(store, "Fix the RACE in the queue", "The queue had a race, and now has none.")
    keep(store, "The queue is slow", "There is no such race")

    (match,) = found(store, "race", "Queue")

    assert (match.session.id, match.who, match.count) == (one, "agent", 2)
    assert match.excerpt == "The queue had a race, and now has none."
    assert found(store, "race in the QUEUE")[0].who == "you"
    assert found(store, "nowhere") == []


@pytest.mark.parametrize(
    "word", ["größe", "GRÖSSE", 'say "hi"', r"C:\temp", "a\tb", "日本", "$1.2*"]
)
def test_words_are_found_however_the_file_writes_them(store: SessionStore, word: str) -> None:
    """Records are escaped ASCII; special characters of regular expressions match literally."""
    id = keep(store, f"look: {word.lower()}", "ok")

    assert [match.session.id for match in found(store, word)] == [id]


def test_long_output_beside_the_record_is_found(store: SessionStore) -> None:
    """It is in a separate file that the record names; subagents' sessions are searched too."""
    long = keep(store, "go", "done", "needle " + "x" * BLOB_CHARS_MIN)
    of_agent = keep(store.of_agents(long), "look for it", "the needle is there")

    matches = found(store, "needle")

    assert {(match.session.id, match.who) for match in matches} == {
        (long, "bash"),
        (of_agent, "agent"),
    }
    assert all(len(match.excerpt) <= 160 for match in matches)


def test_secrets_hidden_prompts_and_what_was_taken_back_are_not_found(store: SessionStore) -> None:
    """As in an export: no output holds a key, and a search cannot be used to guess one."""
    shown = keep(store, "go", "done", f"TOKEN={KEY} here")
    keep(store, "a hidden thing", "hidden indeed", visible=False)
    session, conversation = store.resume(keep(store, "taken back", "taken back"))
    session.rewind(conversation.prompts[0].id)
    session.close()

    (match,) = found(store, "TOKEN")

    assert match.session.id == shown
    assert KEY not in match.excerpt
    for words in ("canary", "hidden", "taken"):
        assert found(store, words) == []


def test_without_ripgrep_every_session_is_read(
    store: SessionStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slower, with the same result."""
    id = keep(store, "find me", "ok")
    monkeypatch.setattr(programs, "_SYSTEM", frozenset())
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sysconfig.get_path", lambda _name: str(tmp_path))

    assert [match.session.id for match in found(store, "FIND")] == [id]


def test_a_damaged_session_hides_no_other(store: SessionStore, tmp_path: Path) -> None:
    """`sessions verify` names its fault."""
    id = keep(store, "find me", "ok")
    (tmp_path / "sessions" / "broken.jsonl").write_text("find me\n")

    assert [match.session.id for match in found(store, "find")] == [id]
    assert found(SessionStore(tmp_path / "none"), "find") == []
