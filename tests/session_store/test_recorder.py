"""One session at a time: that of the conversation at hand."""

from pathlib import Path

import pytest

from agent_cli.conversation import Conversation
from agent_cli.errors import SessionError
from agent_cli.messages import UserMessage
from agent_cli.session_store import Recorder, SessionStore
from tests.session_store.recordings import WORKSPACE


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path)


def say(recorder: Recorder, conversation: Conversation, text: str) -> str:
    """Add a finished prompt and return its id."""
    conversation.publish = recorder.record
    prompt = conversation.begin(UserMessage.of(text))
    conversation.complete()
    return prompt.id


def session_id(recorder: Recorder) -> str:
    assert recorder.session
    return recorder.session.id


def texts(store: SessionStore, id: str) -> list[str]:
    inputs = [prompt.input for prompt in store.read(id).prompts]
    return [str(entry.content[0]["text"]) for entry in inputs if entry]


def test_each_conversation_gets_a_session_of_its_own(store: SessionStore) -> None:
    recorder = Recorder(store, WORKSPACE)
    ids = []
    for text in ("one", "two"):
        conversation = Conversation()
        recorder.follow(conversation)
        say(recorder, conversation, text)
        ids.append(session_id(recorder))
    recorder.close()

    assert [texts(store, id) for id in ids] == [["one"], ["two"]]
    assert recorder.session is None


def test_resume_fork_and_rewind_lead_to_a_conversation_to_go_on_with(store: SessionStore) -> None:
    recorder = Recorder(store, WORKSPACE)
    recorder.follow(conversation := Conversation())
    say(recorder, conversation, "one")
    second = say(recorder, conversation, "two")
    first = session_id(recorder)

    say(recorder, recorder.rewind(second), "2")
    say(recorder, recorder.fork(first), "forked")
    fork = session_id(recorder)
    say(recorder, recorder.resume(first), "resumed")
    recorder.close()

    assert texts(store, first) == ["one", "2", "resumed"]
    assert texts(store, fork) == ["one", "2", "forked"]


def test_what_cannot_be_opened_leaves_the_session_at_hand(store: SessionStore) -> None:
    recorder = Recorder(store, WORKSPACE)
    recorder.follow(conversation := Conversation())
    say(recorder, conversation, "one")

    for impossible in ("nowhere", session_id(recorder)):
        with pytest.raises(SessionError):
            recorder.resume(impossible)
    say(recorder, conversation, "two")
    recorder.close()

    assert texts(store, conversation.id) == ["one", "two"]


def test_without_a_session_nothing_is_recorded(store: SessionStore, tmp_path: Path) -> None:
    """`--no-session`."""
    recorder = Recorder(store, WORKSPACE)
    say(recorder, Conversation(), "one")

    assert list(tmp_path.iterdir()) == []
    with pytest.raises(SessionError, match="has no session to rewind"):
        recorder.rewind("p")
