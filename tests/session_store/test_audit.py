"""Approvals, read from the record."""

from pathlib import Path

from agent_cli.conversation import Conversation
from agent_cli.session_store import SessionStore
from tests.fakes import calls, says, tool_use
from tests.session_store.recordings import WORKSPACE, agent_with


async def test_the_record_tells_who_was_asked_what_and_why(tmp_path: Path) -> None:
    """S2-51: asked, approved and rejected, with times; one that is open; across a restart."""
    store = SessionStore(tmp_path)
    session = store.create(conversation := Conversation(user_id="ada"), WORKSPACE)
    script = [calls(tool_use("write", {}, f"t{number}")) for number in (1, 2, 3)]
    agent = agent_with(conversation, session, *script)
    await agent.prompt("Write")
    await agent.approve("t1")
    session.close()
    session, conversation = store.resume(session.id)
    await agent_with(conversation, session, script[-1]).reject("t2", "not today")
    session.close()

    asked = store.questions(session.id)

    found = [(q.tool_call_id, q.tool, q.user_id, q.reason, q.decision) for q in asked]
    assert found == [
        ("t1", "write", "ada", "write needs a yes", "approved"),
        ("t2", "write", "ada", "write needs a yes", "rejected"),
        ("t3", "write", "ada", "write needs a yes", None),
    ]
    times = [(q.asked_at_ms, q.decided_at_ms) for q in asked if q.decided_at_ms]
    assert len(times) == 2
    assert all(asked_at <= decided_at for asked_at, decided_at in times)


async def test_a_session_without_questions_has_no_audit(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    session = store.create(conversation := Conversation(), WORKSPACE)
    script = [calls(tool_use("look", {}, "t1")), says("Done.")]
    await agent_with(conversation, session, *script).prompt("Look")
    session.close()

    assert [*store.questions(session.id)] == []
